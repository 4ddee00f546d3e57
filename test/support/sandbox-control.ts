/** Calls a control of the sandbox at a URL: POST with a body, else GET. `Answer`: the form of its answer. */
export async function controlSandbox<Answer = unknown>(
  url: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const response = await fetch(`${url}/_sandbox${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as Answer; // Its caller states the form.
}

/** Requests and charges as a sandbox counted them; endpoints by method and path. */
export interface Ledger {
  readonly requests: number;
  readonly endpoints: Readonly<
    Record<
      string,
      {
        readonly requests: number;
        readonly billed: number;
        readonly faults: Readonly<Record<string, number>>;
      }
    >
  >;
  readonly contents: Readonly<
    Record<"distinct_records" | "received_more_than_once" | "billed_more_than_once" | "billed_again", number>
  >;
}

/** Reads the ledger of the sandbox at a URL. */
export const ledgerAt = (url: string): Promise<Ledger> => controlSandbox<Ledger>(url, "/ledger");

/** Present or former member of a segment at the service. */
export interface ServiceMember {
  readonly service_pid: string;
  readonly first_added_at: string;
  readonly is_member: boolean;
}

/** Members of a segment at the service, in the order of their first addition. */
export async function membersAt(url: string, segmentId: string): Promise<readonly ServiceMember[]> {
  const path = `/segments/${segmentId}/members`;
  const { members } = await controlSandbox<{ members: readonly ServiceMember[] }>(url, path);
  return members;
}

/** ID of the segment with a name at the service; empty without one. */
export async function segmentNamed(url: string, name: string): Promise<string> {
  const { segments } = await controlSandbox<{ segments: readonly { segment_id: string; name: string }[] }>(
    url,
    "/segments",
  );
  return segments.find((segment) => segment.name === name)?.segment_id ?? "";
}

/** PIDs of the present members. */
export async function livingAt(url: string, segmentId: string): Promise<readonly string[]> {
  return (await membersAt(url, segmentId)).flatMap((one) => (one.is_member ? [one.service_pid] : []));
}
