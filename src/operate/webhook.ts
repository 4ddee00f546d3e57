import { setTimeout as delay } from "node:timers/promises";
import { request } from "undici";
import type { AlertsConfig } from "../config/config.ts";
import { openAgent } from "../http-agent.ts";
import type { Alert } from "./alert-states.ts";

/** Alerts of one post. */
export interface AlertPost {
  readonly alerts: readonly Alert[];
  /** Empty if no run is involved. */
  readonly runId: string;
  readonly warehouse: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

const TIMEOUT_MS = 10_000;
const TRIES = 3;
const PAUSE_MS = 500;

/** The webhook rejected an alert; the message has only the status, since its address is a secret. */
class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly code: string;
  constructor(code: string) {
    super(`The webhook returned ${code}.`);
    this.code = code;
  }
}

/** Posts alerts; verifies certificates and doesn't follow redirects. Throws if the webhook rejects them. */
export async function postToWebhook(
  { webhook, format }: Pick<AlertsConfig, "webhook" | "format">,
  post: AlertPost,
): Promise<void> {
  const url = new URL(await webhook.read());
  const isSlack = format === "slack" || (format === "auto" && url.hostname === "hooks.slack.com");
  const body = JSON.stringify(isSlack ? slackForm(post) : jsonForm(post));
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await postOnce(url, body);
    } catch (error) {
      const isRefused = error instanceof WebhookError && /^http_4(?!08|29)/.test(error.code);
      if (isRefused || attempt === TRIES) throw error;
      await delay(PAUSE_MS * attempt);
    }
  }
}

async function postOnce(url: URL, body: string): Promise<void> {
  const dispatcher = openAgent({ connections: 1, connectTimeoutMs: TIMEOUT_MS });
  try {
    const response = await request(url, {
      dispatcher,
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body.dump();
    if (response.statusCode < 200 || response.statusCode > 299) {
      throw new WebhookError(`http_${response.statusCode}`);
    }
  } finally {
    await dispatcher.destroy();
  }
}

/** JSON body with every alert, its code, and its remedy. */
function jsonForm({ alerts, runId, warehouse, at }: AlertPost): object {
  return {
    source: "person-etl",
    at,
    run_id: runId === "" ? null : runId,
    warehouse,
    alerts: alerts.map(({ subject, state, before, message, whatToDo }) => ({
      subject,
      state,
      before,
      message,
      what_to_do: whatToDo === "" ? null : whatToDo,
    })),
  };
}

/** Slack-compatible body: one text, with Slack's special characters escaped. */
function slackForm({ alerts, runId, warehouse }: AlertPost): object {
  const lines = alerts.flatMap(({ subject, state, message, whatToDo }) => [
    `${state === "ok" ? ":white_check_mark:" : ":x:"} *${escape(subject)}*: ${escape(message)}`,
    ...(whatToDo === "" ? [] : [`→ ${escape(whatToDo)}`]),
  ]);
  const run = runId === "" ? "" : `run ${runId}, `;
  return { text: [...lines, `_person-etl, ${escape(`${run}${warehouse}`)}_`].join("\n") };
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
