/** Calls a control of the sandbox at a URL: POST with a body, else GET. */
export async function controlSandbox(url: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`${url}/_sandbox${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return response.json();
}
