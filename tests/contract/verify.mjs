// Verifies deliveries with an npm package: one JSON object a line in, one verdict a line out.
// Arguments: the folder that holds node_modules, and the package, whose `Webhook` is used.
// In: {"secret", "headers": {"webhook-id", "webhook-timestamp", "webhook-signature"}, "body": base64 of the raw bytes}
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, name] = process.argv.slice(2);
const { Webhook } = createRequire(folder + "/")(name);

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    const event = new Webhook(secret).verify(Buffer.from(body, "base64").toString("utf8"), headers);
    console.log(JSON.stringify({ ok: true, id: event.id }));
  } catch (error) {
    console.log(JSON.stringify({ ok: false, error: error.message }));
  }
}
