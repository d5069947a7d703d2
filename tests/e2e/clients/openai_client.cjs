// What a consumer writes in JavaScript: the official SDK against a router.
// `node openai_client.cjs URL MODEL` prints one JSON object with what the SDK understood.
"use strict";
const OpenAI = require("openai");
const { toFile } = OpenAI;

const [url, model] = process.argv.slice(2);
const messages = [{ role: "user", content: "hi" }];
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 20000 });

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return { name: error.constructor.name, status: error.status ?? null, code: error.code ?? null };
  }
  return null;
}

async function stream() {
  const told = { text: "", finish: null, tokens: 0 };
  const chunks = await client.chat.completions.create({
    model, messages, stream: true, stream_options: { include_usage: true }, max_tokens: 8,
  });
  for await (const chunk of chunks) {
    told.text += chunk.choices[0]?.delta?.content ?? "";
    told.finish = chunk.choices[0]?.finish_reason ?? told.finish;
    told.tokens = chunk.usage?.completion_tokens ?? told.tokens;
  }
  return told;
}

async function left() {
  const chunks = await client.chat.completions.create({ model, messages, stream: true });
  let count = 0;
  for await (const _ of chunks) {
    count += 1;
    if (count === 3) break;
  }
  return count;
}

async function main() {
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 8 }).withResponse();
  const text = await client.completions.create({ model, prompt: "hi", max_tokens: 4 });
  const vectors = await client.embeddings.create({ model, input: "hi", encoding_format: "float" });
  const heard = await client.audio.transcriptions.create({
    model, file: await toFile(Buffer.alloc(5000, 7), "a.wav"),
  });
  const stored = await client.get("/responses/resp_1", { query: { model } });
  const told = {
    models: ids,
    model: (await client.models.retrieve(model)).id,
    chat: whole.data.choices[0].message.content,
    session: whole.response.headers.get("x-otela-session"),
    text: text.choices[0].text,
    vector: vectors.data[0].embedding,
    stream: await stream(),
    heard: { path: heard.path, method: heard.method, model: heard.model },
    stored: { path: stored.path, method: stored.method },
    unknown: await failure(client.chat.completions.create({ model: "no/such", messages })),
    missing: await failure(client.chat.completions.create({ messages })),
    left: await left(),
    late: await failure(client.post("/chat/completions", {
      body: { model, messages, max_tokens: 64 }, timeout: 30,
    })),
  };
  process.stdout.write(JSON.stringify(told));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
