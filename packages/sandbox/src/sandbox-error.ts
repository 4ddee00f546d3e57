export interface Problem {
  /** Flag or setting. */
  readonly path: string;
  readonly message: string;
  readonly hint?: string;
}

/** The caller has to fix an option, a plan or a control; nothing was changed. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly problems: readonly Problem[];
  constructor(message: string, problems: readonly Problem[] = []) {
    super(message);
    this.problems = problems;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
