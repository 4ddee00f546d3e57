import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A service that answers every record with the same person of some size, under a PID of the record's content.
 * `node bench/sized-service.ts FILE` prints `{"url": …}`; FILE has a person of the sandbox in that size.
 */
const person = readFileSync(process.argv[2] ?? "", "utf8");

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

function resultOf({ record_id: id, ...content }: { readonly record_id: string }): string {
  const pid = createHash("sha256").update(JSON.stringify(content)).digest("hex").slice(0, 24);
  return `{"record_id":"${id}","is_match":true,"service_pid":"${pid}","match_score":90,${person.slice(1)}`;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== "POST") {
    response.writeHead(404).end("{}");
    return;
  }
  // Requests of the program.
  const { records } = JSON.parse(await textOf(request)) as { records: { record_id: string }[] };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(`{"api_request_id":"bench","results":[${records.map(resultOf).join(",")}]}`);
}

const server = createServer((request, response) => void answer(request, response));
server.listen(0, "127.0.0.1", () => {
  // It listens on TCP.
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
});
process.stdin.once("end", () => process.exit(0)).resume();
