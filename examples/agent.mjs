// An agent's loop in JavaScript: node's own fetch, no package. Loop and model stay here, the memory is a server's.
// With `offprompt serve` running: OFFPROMPT_KEY=$(cat TOKENFILE) OPENAI_API_KEY=… node examples/agent.mjs

const { OFFPROMPT_URL = "http://127.0.0.1:7333", OPENAI_BASE_URL = "https://api.openai.com/v1" } = process.env;

function weather({ city }) {
  console.log(`the weather of ${city}`); // a handle's value comes in arguments as it comes in text
  return "雨, 12 °C";
}
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const options = {
  model: "gpt-4o-mini",
  system: "Be brief.",
  tools: [{ type: "function", function: { name: "weather", description: "The weather now.", parameters } }],
};

async function post(url, key, body, headers = {}) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const document = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(document.detail), document);
  return document;
}

let underway; // what a call of the session leaves for the next one; any worker of the server may answer it
async function session(verb, body) {
  const url = `${OFFPROMPT_URL}/v1/sessions/trip-1/${verb}`;
  const user = { "Offprompt-User": encodeURIComponent("李雷") };
  const answer = await post(url, process.env.OFFPROMPT_KEY, { ...options, underway, ...body }, user);
  underway = answer.underway;
  return answer;
}

const messages = [];
async function turn(text) {
  messages.push({ role: "user", content: text });
  for (let added = []; ; ) {
    const { request } = await session("prepare", { messages: [...messages, ...added] });
    const said = await post(`${OPENAI_BASE_URL}/chat/completions`, process.env.OPENAI_API_KEY, request);
    const { reply, entry } = await session("absorb", { reply: said });
    added = reply.messages;
    if (!reply.done) continue; // memory was asked and has answered: let the model go on
    messages.push(...added.splice(0));
    if (!reply.tool_calls.length) return console.log(`${entry.seq} requests: ${reply.text}`);
    for (const call of reply.tool_calls) {
      const content = weather(JSON.parse(call.arguments));
      messages.push({ role: "tool", tool_call_id: call.call_id, content });
    }
  }
}

await turn("我住在乌尔姆的多瑙河边，请记住");
await turn("Do I need an umbrella today?");

// prints:
// 2 requests: 记住了。
// the weather of 乌尔姆的多瑙河边
// 4 requests: Yes: 乌尔姆的多瑙河边 has rain, 12 °C.
