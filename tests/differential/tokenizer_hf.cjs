// Tokenizes with Hugging Face's own library (npm package "tokenizers"). Records on standard input
// and lines on standard output as tokenizer_batch.cpp describes them.
//
//   node tokenizer_hf.cjs FOLDER_OF_NODE_MODULES TOKENIZER_JSON
const fs = require("fs");
const path = require("path");

async function main() {
  const [folder, file] = process.argv.slice(2);
  const { Tokenizer } = require(path.join(path.resolve(folder), "node_modules", "tokenizers"));
  const json = JSON.parse(fs.readFileSync(file, "utf8"));
  const byPolicy = {
    s: Tokenizer.fromString(JSON.stringify(json)),
    p: Tokenizer.fromString(JSON.stringify({ ...json, added_tokens: [] })),
  };
  const input = fs.readFileSync(0);
  const lines = [];
  for (let at = 0; at < input.length; ) {
    const policy = String.fromCharCode(input[at]);
    const length = input.readUInt32LE(at + 1);
    const text = input.toString("utf8", at + 5, at + 5 + length);
    at += 5 + length;
    const encoding = await byPolicy[policy].encode(text, null, { addSpecialTokens: false });
    lines.push(encoding.getIds().join(" "));
  }
  fs.writeSync(1, lines.map((line) => line + "\n").join(""));
}

main();
