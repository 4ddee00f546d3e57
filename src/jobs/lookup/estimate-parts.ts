import type { Cap } from "./caps.ts";
import type { EstimatePart } from "./estimate.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { bindLookup } from "./lookup-types.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import { type FirstStratum, isFirstTime, type Sample, type Stratum } from "../../load/due/strata.ts";

/** Smaller samples support no interval. */
const LEAST_SAMPLE = 30;

/** Records of a stratum, or of rows that wait for the job of `pid_from`. */
interface Size {
  readonly stratum: Stratum | "waiting";
  readonly records: number;
}

/** Divides the records to send into parts of about the same match rate. @param waiting records that become due during the run */
export function estimateParts(
  job: LookupJobConfig,
  counts: LookupCounts,
  { cap, waiting }: { readonly cap: Cap | null; readonly waiting: number },
): readonly EstimatePart[] {
  const { due, toSend } = counts.strata;
  const most = cap?.records ?? Number.POSITIVE_INFINITY;
  if (most === 0) return [];
  if (waiting === 0) return withoutAdded(toSend, counts).map((size) => partOf(job, counts, size));
  const first: readonly Size[] = [
    { stratum: "waiting", records: waiting },
    ...due.filter(({ stratum }) => stratum !== "unresolved"),
  ];
  const total = sumOf(first);
  if (total > most) {
    return [
      mixedPart(
        withoutAdded(first, counts).map((size) => partOf(job, counts, size)),
        most,
      ),
    ];
  }
  const last = due
    .filter(({ stratum }) => stratum === "unresolved")
    .map((size) => ({ ...size, records: Math.min(size.records, most - total) }));
  return withoutAdded([...first, ...last], counts).map((size) => partOf(job, counts, size));
}

/** Separates as many first-time records as the input has more rows than when the sample was drawn. */
function withoutAdded(
  sizes: readonly Size[],
  { strata: { sample } }: LookupCounts,
): readonly (Size & { readonly isAdded?: boolean })[] {
  let added = sample?.rowsAdded ?? 0;
  return sizes.flatMap((size) => {
    if (size.stratum !== "waiting" && !isFirstTime(size.stratum)) return [size];
    const records = Math.min(added, size.records);
    added -= records;
    return [
      { ...size, records: size.records - records },
      { ...size, records, isAdded: true },
    ].filter((part) => part.records > 0);
  });
}

function partOf(
  job: LookupJobConfig,
  counts: LookupCounts,
  { stratum, records, isAdded = false }: Size & { readonly isAdded?: boolean },
): EstimatePart {
  const { sample } = counts.strata;
  const strata = drawnFrom(stratum);
  const all = addUp(strata.flatMap((name) => sample?.strata[name] ?? []));
  const isSampled = all.records >= LEAST_SAMPLE && !isAdded;
  return {
    records,
    share: shareOf(stratum, counts, all),
    sample: isSampled ? { ...all, strata } : null,
    noun: nounOf(job, stratum, { isAdded, isDrawn: sample !== null }),
  };
}

/** Strata whose answered records are a random part of the same rows. */
function drawnFrom(stratum: Size["stratum"]): readonly FirstStratum[] {
  if (stratum === "waiting") return ["with_pid", "without_pid"];
  return isFirstTime(stratum) ? [stratum] : [];
}

function shareOf(stratum: Size["stratum"], counts: LookupCounts, own: Sample): number {
  if (stratum === "matched") return 1;
  if (stratum === "unmatched") return 0;
  if (own.records > 0) return own.matched / own.records;
  // Rejected rows are more like those without a match than like the average.
  const without = counts.strata.sample?.strata.without_pid;
  if (stratum === "unresolved" && without) return without.matched / without.records;
  return counts.answeredBefore === 0 ? 1 : counts.matchedBefore / counts.answeredBefore;
}

function noun(before: string, after = ""): EstimatePart["noun"] {
  return [`${before}record${after}`, `${before}records${after}`];
}

/** Noun for records without a sample, with its plural. */
function nounOf(
  job: LookupJobConfig,
  stratum: Size["stratum"],
  { isAdded, isDrawn }: { readonly isAdded: boolean; readonly isDrawn: boolean },
): EstimatePart["noun"] {
  if (isAdded) return noun("", " added since the first run");
  if (stratum === "unresolved") return noun("", ` that ${bindLookup(job).pidFrom ?? "another job"} rejected`);
  if (stratum === "changed") return noun("changed ");
  if (stratum === "matched" || stratum === "unmatched") return noun("", " sent again");
  if (job.input.orderBy !== null) return noun("", " that order_by puts later");
  return isDrawn ? noun("", " with too few answers so far") : noun("new ");
}

/** One part for a cap that takes an unknown mixture of several. */
function mixedPart(parts: readonly EstimatePart[], records: number): EstimatePart {
  const share = parts.reduce((sum, part) => sum + part.share * part.records, 0) / sumOf(parts);
  const unsampled = parts.find(({ sample }) => sample === null);
  if (unsampled) return { ...unsampled, records, share };
  const strata = parts.flatMap(({ sample }) => sample?.strata ?? []);
  const drawn = Math.max(...parts.map(({ sample }) => sample?.records ?? 0));
  return { records, share, sample: { records: drawn, matched: share * drawn, strata }, noun: noun("") };
}

function addUp(samples: readonly Sample[]): Sample {
  return {
    records: samples.reduce((sum, { records }) => sum + records, 0),
    matched: samples.reduce((sum, { matched }) => sum + matched, 0),
  };
}

function sumOf(sizes: readonly { readonly records: number }[]): number {
  return sizes.reduce((sum, { records }) => sum + records, 0);
}
