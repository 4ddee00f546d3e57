import { z } from "zod";
import type { JobConfig, JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { keyText, openResults, type RepeatableResults } from "../../extract/read-answer.ts";
import { cursorInstant } from "../../load/write/commit.ts";
import { type Cell, DriftLog, jsonText, jsonType, pidOf } from "../../schemas/convert.ts";
import {
  deathSignalFields,
  deathSignalsEndpoint,
  signalColumn,
  signalMetadataFields,
} from "../../schemas/segments.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import { text } from "../../schemas/field.ts";
import { type FeedContext, type FeedJobType, type FeedReject, upsertRejects } from "../feed.ts";
import {
  forEachSegment,
  type KnownSegment,
  segmentGone,
  segmentsSetting,
  segmentStreams,
} from "./segments.ts";

const { name: endpoint, path } = deathSignalsEndpoint;

const settings = jobSettings("death_signals", { segments: segmentsSetting });
type DeathSignalsJobConfig = JobOf<typeof settings>;

export function deathsJobOf(job: JobConfig): DeathSignalsJobConfig | null {
  return job.type === "death_signals" ? (job as DeathSignalsJobConfig) : null; // `type` identifies the settings
}

const keys = ["obituary_id", "service_pid"] as const;
const signal = flattenerOf({
  fields: { obituary_id: text("indirect", ""), service_pid: text("direct", ""), ...deathSignalFields },
  lists: {},
});
const metadata = flattenerOf({ fields: signalMetadataFields, lists: {} }, "signal_metadata.");
const columns = [...signal.fieldNames, ...metadata.fieldNames.map(signalColumn), "signal_metadata", "_extra"];

type Signal =
  | { readonly kind: "row"; readonly row: readonly Cell[] }
  | { readonly kind: "reject"; readonly ids: readonly (string | null)[] };

/** Reads the row of a signal, or its IDs if one is missing. */
function readSignal(result: JsonObject, drift: DriftLog): Signal {
  const { signal_metadata: sent, ...rest } = result;
  const ids = [keyText(result["obituary_id"]), pidOf(result["service_pid"])];
  if (ids.includes(null)) {
    for (const [i, id] of ids.entries()) {
      if (id === null) drift.note("unexpected_type", keys[i] ?? "", typeof result[keys[i] ?? ""]);
    }
    return { kind: "reject", ids };
  }
  const { object } = signal.flatten({ ...rest, obituary_id: ids[0], service_pid: ids[1] }, null, drift);
  // Unknown keys of the metadata are kept in its JSON, and are not drift.
  const isObject = isJsonObject(sent);
  if (!isObject && sent !== undefined && sent !== null) {
    drift.note("unexpected_type", "signal_metadata", jsonType(sent));
  }
  const known = isObject ? Object.entries(sent) : [];
  const picked = Object.fromEntries(known.filter(([key]) => Object.hasOwn(signalMetadataFields, key)));
  const ofMetadata = metadata.flatten(picked, null, drift).object.cells;
  const whole = sent === undefined || sent === null ? null : jsonText(sent);
  const row = [
    ...object.cells.map((cell) => cell ?? null),
    ...ofMetadata.map((cell) => cell ?? null),
    typeof whole === "string" ? whole : null,
    extraCell(object.extra),
  ];
  return { kind: "row", row };
}

function* readSignals(answer: RepeatableResults, drift: DriftLog): Generator<Signal> {
  for (const result of answer.results(drift)) {
    yield isJsonObject(result) ? readSignal(result, drift) : { kind: "reject", ids: keys.map(() => null) };
  }
}

function* rowsOf(answer: RepeatableResults, drift: DriftLog): Generator<readonly Cell[]> {
  for (const signal of readSignals(answer, drift)) if (signal.kind === "row") yield signal.row;
}

function* rejectsOf(answer: RepeatableResults, job: string, segmentId: string): Generator<FeedReject> {
  for (const signal of readSignals(answer, new DriftLog(endpoint))) {
    if (signal.kind === "row") continue;
    const [obituaryId = null, pid = null] = signal.ids;
    const missing = keys.filter((_, i) => signal.ids[i] === null);
    yield {
      identity: ["death signal", job, segmentId, obituaryId, pid],
      sourceKey: pid ?? obituaryId,
      message: "The signal has no ID.",
      details: JSON.stringify({ missing }),
    };
  }
}

/** Iterable that generates the rows again for each iteration. */
function again<T>(rows: () => Iterable<T>): Iterable<T> {
  return { [Symbol.iterator]: () => rows()[Symbol.iterator]() };
}

async function syncSegment(context: FeedContext<DeathSignalsJobConfig>, { id }: KnownSegment): Promise<void> {
  const reply = await context.call({
    endpoint: deathSignalsEndpoint,
    path: `${path}?segment_id=${encodeURIComponent(id)}`,
    expects: [404],
    read: openResults,
  });
  if (reply.kind === "refused") throw segmentGone(context.job.name, endpoint, id);
  const { value: answer, completedAt, apiRequestId } = reply;
  const drift = new DriftLog(endpoint);
  const received = { row: 0, reject: 0 };
  for (const { kind } of readSignals(answer, drift)) received[kind] += 1;
  const rows = () => rowsOf(answer, new DriftLog(endpoint));
  const scope = { segment_id: id };
  // An empty or shortened list hides nothing, unless the user asks for it.
  const atMostHalf = !context.request.fullRefresh;
  const missing = { scope, flag: "is_present", since: "removed_seen_at", at: completedAt, atMostHalf };
  const {
    results: [signals, ofSegment],
  } = await context.commit({
    drift: drift.entries(),
    counters: { records_received: received.row + received.reject, records_rejected: received.reject },
    upserts: [
      { table: "death_signal", columns, rows: again(rows) },
      {
        table: "segment_death_signal",
        columns: [
          "segment_id",
          "obituary_id",
          "service_pid",
          "first_seen_at",
          "is_present",
          "removed_seen_at",
        ],
        keep: ["first_seen_at"],
        rows: again(function* () {
          for (const [obituaryId = null, pid = null] of rows())
            yield [id, obituaryId, pid, completedAt, "true", null];
        }),
        // A signal without IDs could be any of those that appear to be missing.
        ...(received.reject > 0 ? {} : { missing }),
      },
      // Resolves earlier rejects that are now complete or absent.
      upsertRejects(context, { source: id, code: "missing_id", apiRequestId, at: completedAt }, () =>
        rejectsOf(answer, context.job.name, id),
      ),
    ],
    checkpoints: [{ stream: id, cursor: { checked_at: completedAt } }],
  });
  reportUnbelieved(context, id, ofSegment?.unbelieved ?? 0);
  context.log.info(
    {
      job: context.job.name,
      segment_id: id,
      signals: received.row,
      rejected: received.reject,
      new: signals?.inserted ?? 0,
    },
    "death_signals_read",
  );
}

function reportUnbelieved(
  { job, log, progress }: FeedContext<DeathSignalsJobConfig>,
  id: string,
  missing: number,
): void {
  if (missing === 0) return;
  log.warn({ job: job.name, segment_id: id, missing }, "too_many_signals_missing");
  progress.note(
    job.name,
    `segment ${id}: ${missing} signals, more than half, are missing from the response. They stay present until they are listed ` +
      "again; `run --full-refresh` marks them as removed.",
  );
}

/** Reads the death signals of segments: `GET /v2/segments/signals/deaths`, one call each. */
export const deathSignalsJob: FeedJobType<DeathSignalsJobConfig> = {
  type: "death_signals",
  settings,
  isBilled: false,
  endpoints: [deathSignalsEndpoint],
  writes: ["death_signal", "segment_death_signal"],
  checkpoints: {
    meaning: "checked_at: when the segment was last read; every run reads all signals",
    cursor: z.object({ checked_at: cursorInstant }),
    example: { checked_at: "2026-11-21T04:00:00Z" },
    ...segmentStreams,
  },
  plannedCalls: ({ segments }) => ({ least: segments.length, more: "" }),
  run: (context) => forEachSegment(context, context.job.segments, (segment) => syncSegment(context, segment)),
};
