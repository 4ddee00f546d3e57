import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { serve } from "../support/serve.ts";

test("the import sends its token to no other server, and names the address of a redirect", async () => {
  const received: string[] = [];
  const other = await serve((request, response) => {
    received.push(`${request.url} ${request.headers.authorization}`);
    response.end('{"result": "token"}');
  });
  const superset = await serve((request, response) => {
    if (request.url === "/api/v1/security/login") response.end('{"access_token": "secret"}');
    else response.writeHead(302, { location: `${other}${request.url}` }).end();
  });
  const outcome = await promisify(execFile)(
    "python3",
    ["dashboards/superset/import.py", "--schema", "reporting", "--server", superset],
    {
      env: { ...process.env, SQLALCHEMY_URI: "postgresql://bi@localhost/warehouse", SUPERSET_PASSWORD: "x" },
    },
  ).catch((error: { readonly code: number; readonly stderr: string }) => error);
  expect(received).toEqual([]);
  expect(outcome).toMatchObject({ code: 1 });
  expect(outcome.stderr).toContain(
    `/api/v1/security/csrf_token/: HTTP 302: redirected to ${other}/api/v1/security/csrf_token/. Use that address for --server.`,
  );
});
