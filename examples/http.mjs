// A travel assistant's memory over HTTP, in JavaScript: node's own fetch, no package.
// With `offprompt serve` running: OFFPROMPT_KEY=$(cat TOKENFILE) node examples/http.mjs

const url = process.env.OFFPROMPT_URL ?? "http://127.0.0.1:7333";

// In the scope of one user; what fails is an error with the problem's class and its way out.
async function ask(method, path, body, headers = {}) {
  const answer = await fetch(url + path, {
    method,
    headers: {
      Authorization: `Bearer ${process.env.OFFPROMPT_KEY}`,
      "Offprompt-User": encodeURIComponent("李明"),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const document = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(document.detail), document);
  return document;
}

// Exact state: one name, one value.
await ask("PUT", `/v1/slots/${encodeURIComponent("回复风格")}`, { value: "简洁，用中文" });
const trip = await ask("PUT", "/v1/slots/trip", { value: { city: "Lisbon", nights: 4 }, tags: ["行程"] });

// Two writers: the second one is told, nothing is lost.
const first = { "If-Match": `"${trip.version}"` };
await ask("PUT", "/v1/slots/trip", { value: { city: "Lisbon", nights: 5 } }, first);
try {
  await ask("PUT", "/v1/slots/trip", { value: { city: "Porto", nights: 2 } }, first);
} catch (problem) {
  console.log(problem.status, problem.code, "the trip was changed meanwhile; it stays as it is");
}

// Found by meaning. A change that is sent again is made once.
const once = { "Idempotency-Key": crypto.randomUUID() };
for (let sent = 0; sent < 2; sent++) await ask("POST", "/v1/memories", { what: "我对花生过敏" }, once);
const found = await ask("POST", "/v1/memories/recall", { query: "What am I allergic to?" });
console.log(found.hits[0].memory.text);

// Rules have read that fact for a slot too.
for (const slot of (await ask("GET", "/v1/slots")).slots) {
  console.log(slot.name, JSON.stringify(slot.value), slot.version);
}

// prints:
// 412 ConflictError the trip was changed meanwhile; it stays as it is
// 我对花生过敏
// allergies "花生" 1
// trip {"city":"Lisbon","nights":5} 2
// 回复风格 "简洁，用中文" 1
