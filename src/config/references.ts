import type { Complaint } from "./problems.ts";

/** The environment that references are read from. */
export type Environment = Readonly<Record<string, string | undefined>>;

const REFERENCE = /\$\$\{|\$\{([^}]*)\}?/g;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** True when the text is one reference to an environment variable and nothing else. */
export function isEnvironmentReference(text: string): boolean {
  return /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text);
}

/** The text with each `${NAME}` replaced by the variable's value (`$${` stands for `${`), or why that can't be. */
export function expand(text: string, env: Environment): { readonly text: string } | Complaint {
  let complaint: Complaint | null = null;
  const expanded = text.replaceAll(REFERENCE, (match: string, name: string | undefined) => {
    if (match === "$${") return "${";
    const value = lookUp(match, name ?? "", env);
    if (typeof value === "string") return value;
    complaint ??= value;
    return "";
  });
  return complaint ?? { text: expanded };
}

/** The text with each reference replaced by the same harmless letters: what is left is literal. */
export function maskReferences(text: string, mask: string): string {
  return text.replaceAll(REFERENCE, mask);
}

function lookUp(match: string, name: string, env: Environment): string | Complaint {
  if (!match.endsWith("}") || !NAME.test(name)) {
    return {
      message: "holds a reference that can't be read",
      hint: "write ${NAME} with the name of an environment variable; $${ stands for a plain ${",
    };
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value !== undefined && value.trim() !== "") return value;
  // A key pasted between the braces by mistake is not repeated: variables are in capitals, as a rule.
  const which = /^[A-Z][A-Z0-9_]*$/.test(name)
    ? `the environment variable ${name}`
    : "an environment variable";
  const state = value === undefined ? "is not set" : "is empty";
  return { message: `needs ${which}, which ${state}`, hint: "set it where this command is started" };
}
