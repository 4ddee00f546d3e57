/** A parsed result that may be damaged in any way. */
export type Loose = Record<string, unknown>;

/** Text that takes the place of a value when a draft is written: what no parsed value could be written as. */
export interface Draft {
  readonly record: Loose;
  /** A value that will be written exactly so. */
  raw(text: string): string;
}

/** A member of a draft's record, or of an object in one of its lists. */
export interface Member {
  readonly object: Loose;
  readonly name: string;
  readonly value: unknown;
}

function isLoose(value: unknown): value is Loose {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A record's text; the one before where it is nested deeper than the platform can write. */
function write(record: Loose, otherwise: string): string {
  try {
    return JSON.stringify(record);
  } catch {
    return otherwise;
  }
}

/** Changes one result's text by way of its parsed form; leaves it where an earlier change made it no object. */
export function editResult(text: string, edit: (draft: Draft) => void): string {
  const record: unknown = JSON.parse(text);
  if (!isLoose(record) || Object.keys(record).length === 0) return text;
  const raws: string[] = [];
  edit({ record, raw: (replacement) => `@raw-${raws.push(replacement) - 1}@` });
  return write(record, text).replaceAll(/"@raw-(\d+)@"/gu, (_, index: string) => raws[Number(index)] ?? "");
}

/** Every member of the record and of the objects in its lists. */
export function membersOf(record: Loose): readonly Member[] {
  const elements = Object.values(record).flatMap((value) =>
    Array.isArray(value) ? value.filter(isLoose) : [],
  );
  return [record, ...elements].flatMap((object) =>
    Object.entries(object).map(([name, value]) => ({ object, name, value })),
  );
}

/** Sets a member, also one called `__proto__`. */
export function put(object: Loose, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
