import { onTestFinished } from "vitest";
import { forward, startServer } from "../../support/http-proxy.ts";
import type { World } from "../world.ts";

/** A 200 answer that the client received completely. */
export interface RecordedAnswer {
  readonly path: string;
  /** JSON text, as sent. */
  readonly request: string;
  /** JSON text, as received; may still be truncated (a fault with a matching content-length). */
  readonly response: string;
}

/** A proxy that records the client's answers; bodies may be changed in transit. */
export async function startRecordingProxy(
  origin: string,
  change: (path: string, body: string) => string = (_path, body) => body,
): Promise<{ readonly url: string; readonly answers: readonly RecordedAnswer[] }> {
  const answers: RecordedAnswer[] = [];
  const { url, close } = await startServer(async (request, response, asked) => {
    const { status, headers, body } = await forward(origin, request, asked);
    // A broken answer of the service breaks for the client too.
    if (body === null) throw new Error("the answer was cut");
    const path = request.url ?? "";
    const changed = change(path, body.toString("utf8"));
    const isChanged = changed !== body.toString("utf8");
    const bytes = isChanged ? Buffer.from(changed) : body;
    response
      .writeHead(status, isChanged ? { ...headers, "content-length": bytes.length } : headers)
      .end(bytes);
    if (status === 200)
      answers.push({ path, request: asked.toString("utf8"), response: bytes.toString("utf8") });
  });
  onTestFinished(close);
  return { url, answers };
}

/** Puts such a proxy between a world and its sandbox. */
export async function recordAnswers(
  world: World,
  change?: (path: string, body: string) => string,
): Promise<readonly RecordedAnswer[]> {
  const { url, answers } = await startRecordingProxy(world.sandbox.url, change);
  world.serviceUrl = url;
  return answers;
}
