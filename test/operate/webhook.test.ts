import { once } from "node:events";
import { createServer } from "node:https";
import { expect, onTestFinished, test, vi } from "vitest";
import { fixedSecret } from "../../src/config/secret.ts";
import { postToWebhook } from "../../src/operate/webhook.ts";
import { makeSelfSigned } from "../extract/self-signed.ts";

test("an alert isn't posted to a host without a valid certificate, whatever the environment says", async () => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  const asked: (string | undefined)[] = [];
  const server = createServer(makeSelfSigned(), (request, response) => {
    asked.push(request.url);
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const webhook = fixedSecret("test", `https://localhost:${port}/T0/secret-path`);
  const post = { alerts: [], runId: "", warehouse: "w", at: "2026-01-01T00:00:00Z" };
  await expect(postToWebhook({ webhook, format: "json" }, post)).rejects.toMatchObject({
    code: "DEPTH_ZERO_SELF_SIGNED_CERT",
  });
  expect(asked).toEqual([]);
});
