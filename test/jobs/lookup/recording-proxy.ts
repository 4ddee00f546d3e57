import { createServer, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A 200 answer that the client received completely. */
export interface RecordedAnswer {
  readonly path: string;
  /** JSON text, as sent. */
  readonly request: string;
  /** JSON text, as received; may still be truncated (a fault with a matching content-length). */
  readonly response: string;
}

async function readAll(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Forwards requests unchanged. Rejects if the answer is incomplete. */
async function ask(
  origin: string,
  request: IncomingMessage,
  body: Buffer,
): Promise<{ readonly reply: IncomingMessage; readonly bytes: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { host: _host, "accept-encoding": _encoding, ...headers } = request.headers;
  const options = { method: request.method ?? "GET", headers };
  httpRequest(new URL(request.url ?? "/", origin), options, resolve)
    .once("error", reject)
    .end(body);
  const reply = await promise;
  return { reply, bytes: await readAll(reply) };
}

/** A proxy that records the client's answers; bodies may be changed in transit. */
export async function startRecordingProxy(
  origin: string,
  change: (path: string, body: string) => string = (_path, body) => body,
): Promise<{ readonly url: string; readonly answers: readonly RecordedAnswer[] }> {
  const answers: RecordedAnswer[] = [];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readAll(request);
    try {
      const { reply, bytes: sent } = await ask(origin, request, body);
      const status = reply.statusCode ?? 0;
      const path = request.url ?? "";
      const { "transfer-encoding": _transfer, connection: _connection, ...others } = reply.headers;
      const changed = change(path, sent.toString("utf8"));
      const isChanged = changed !== sent.toString("utf8");
      const bytes = isChanged ? Buffer.from(changed) : sent;
      const headers = isChanged ? { ...others, "content-length": bytes.length } : others;
      response.writeHead(status, headers).end(bytes);
      if (status !== 200) return;
      answers.push({ path, request: body.toString("utf8"), response: bytes.toString("utf8") });
    } catch {
      // A broken answer of the service breaks for the client too.
      request.socket.destroy();
    }
  }

  const server = createServer((request, response) => {
    void serve(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  // Listening on TCP: the address is an object.
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, answers };
}
