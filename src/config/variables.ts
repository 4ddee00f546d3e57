import type { SettingProblem } from "./problems.ts";
import { suggest } from "../suggest.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const REFERENCE = /\$\$\{|\$\{([^}]*)\}?/g;

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** True if the text is exactly one reference to an environment variable. */
export function isEnvironmentReference(text: string): boolean {
  return /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text);
}

/** Replaces each `${NAME}` by the variable's value (`$${` is an escaped `${`), or returns a problem. */
export function expand(text: string, env: Environment): { readonly text: string } | SettingProblem {
  let problem: SettingProblem | null = null;
  const expanded = text.replaceAll(REFERENCE, (match: string, name: string | undefined) => {
    if (match === "$${") return "${";
    const value = lookUp(match, name ?? "", env);
    if (typeof value === "string") return value;
    problem ??= value;
    return "";
  });
  return problem ?? { text: expanded };
}

/** Replaces each reference by a mask, so that only literal text is left. */
export function maskReferences(text: string, mask: string): string {
  return text.replaceAll(REFERENCE, mask);
}

function lookUp(match: string, name: string, env: Environment): string | SettingProblem {
  if (!match.endsWith("}") || !NAME.test(name)) {
    return {
      message: "contains an invalid reference",
      hint: "write ${NAME} with the name of an environment variable; $${ is an escaped ${",
    };
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value !== undefined && value.trim() !== "") return value;
  // Names are repeated only in capitals: a key may have been pasted between the braces by mistake.
  const isShown = /^[A-Z][A-Z0-9_]*$/.test(name);
  const which = isShown ? `the environment variable ${name}` : "an environment variable";
  const state = value === undefined ? "is not set" : "is empty";
  const set = Object.keys(env).filter((other) => other !== name && env[other]?.trim());
  const meant = isShown ? suggest(name, set) : null;
  const hint = "set it in the environment of this command";
  return {
    message: `requires ${which}, which ${state}`,
    hint: meant === null ? hint : `did you mean ${meant}? Otherwise, ${hint}`,
  };
}
