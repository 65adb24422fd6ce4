"""How model families write a call in their text: one file per family, each an opening and a reader."""
