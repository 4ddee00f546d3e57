import type { Command, Option } from "commander";
import { openConfig } from "../app.ts";
import { type Context, dataResult } from "../command.ts";
import { UsageError } from "../failure.ts";

/** Prints a completion script; for `jobs`, which the scripts use, the names of the configured jobs. */
export async function completion(context: Context, _flags: object, shell: string) {
  if (shell === "jobs") {
    // Without a valid configuration there is nothing to complete.
    const jobs: readonly string[] = await openConfig(context).then(
      (config) => config.jobs.map(({ name }) => name),
      () => [],
    );
    return dataResult({ jobs }, jobs.join("\n"));
  }
  const write = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (!write) throw new UsageError(`There is no completion for ${shell}. Choose bash, zsh or fish.`);
  const script = write(commandsOf(context.program));
  return dataResult({ shell, script }, script);
}

/** A command; the program first, whose options are those of all commands. */
interface Completed {
  /** `rejects list`; empty for the program. */
  readonly path: string;
  readonly options: readonly Option[];
  readonly commands: readonly Command[];
  readonly takesJobs: boolean;
  readonly choices: readonly string[];
}

function commandsOf(command: Command, path = ""): readonly Completed[] {
  const completed = {
    path,
    options: command.createHelp().visibleOptions(command),
    commands: command.commands,
    takesJobs: command.registeredArguments.some((argument) => ["job", "jobs"].includes(argument.name())),
    choices: command.name() === "completion" ? Object.keys(SHELLS) : [],
  };
  return [
    completed,
    ...command.commands.flatMap((child) => commandsOf(child, `${path} ${child.name()}`.trim())),
  ];
}

const takesValue = (option: Option): boolean => option.required || option.optional;

const flagsOf = ({ long, short }: Option): readonly string[] =>
  [short, long].filter((flag) => flag !== undefined);

/** Completes in bash 3 and newer. In zsh, the names `path` and `words` are reserved. */
function bashScript(all: readonly Completed[]): string {
  const paths = all.filter(({ path }) => path !== "").map(({ path }) => `" ${path}"`);
  const options = all.flatMap((command) => command.options);
  const values = [...new Set(options.filter(takesValue).flatMap(flagsOf))];
  const choices = new Map(
    options.flatMap((option) => (option.argChoices ? [[option.long, option.argChoices]] : [])),
  );
  const globals = all[0]?.options ?? [];
  const cases = all.map(({ path, commands, takesJobs, choices: own, options: known }) => {
    const flags = new Set([...known, ...globals].map(({ long }) => long));
    const words = [...commands.map((command) => command.name()), ...own, ...flags];
    return `    "${path === "" ? "" : ` ${path}`}") list="${words.join(" ")}"${takesJobs ? " jobs=yes" : ""} ;;`;
  });
  return `# Completes person-etl in bash.
_person_etl() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="" list="" jobs="" file="" i
  local config=()
  # bash splits --config=FILE into three words, zsh keeps one.
  if [[ "$prev" == "=" ]]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  if [[ "$cur" == "=" ]]; then cur=""; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      -c | --config)
        file="\${COMP_WORDS[i+1]}"
        if [[ "$file" == "=" ]]; then file="\${COMP_WORDS[i+2]}"; fi ;;
      --config=*) file="\${COMP_WORDS[i]#--config=}" ;;
    esac
    case "\${COMP_WORDS[i]}" in
      ${values.join(" | ")})
        i=$((i + 1))
        if [[ "\${COMP_WORDS[i]}" == "=" ]]; then i=$((i + 1)); fi
        continue ;;
    esac
    case "$command \${COMP_WORDS[i]}" in
      ${paths.join(" | ")}) command="$command \${COMP_WORDS[i]}" ;;
    esac
  done
  # The shell expands ~ only when it runs the line.
  if [[ "\${file:0:2}" == "~/" ]]; then file="$HOME/\${file:2}"; fi
  if [[ -n "$file" ]]; then config=(--config "$file"); fi
  case "$prev" in
${[...choices].map(([flag, known]) => `    ${flag}) COMPREPLY=($(compgen -W "${known.join(" ")}" -- "$cur")); return ;;`).join("\n")}
    --job) jobs=yes ;;
    ${values.filter((flag) => !choices.has(flag) && flag !== "--job").join(" | ")}) return ;;
    *)
      case "$command" in
${cases.map((line) => `    ${line}`).join("\n")}
      esac ;;
  esac
  if [[ -n "$jobs" && "$cur" != -* ]]; then
    list="$list $("\${COMP_WORDS[0]}" \${config[@]+"\${config[@]}"} completion jobs 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$list" -- "$cur"))
}
complete -o default -F _person_etl person-etl`;
}

/** Lets zsh use the completion of bash. The last line completes the first time, when zsh loads the script from a file. */
function zshScript(all: readonly Completed[]): string {
  return `#compdef person-etl
autoload -U +X bashcompinit && bashcompinit
${bashScript(all)}
[[ \${funcstack[1]} == _person-etl ]] && _bash_complete -o default -F _person_etl`;
}

function fishScript(all: readonly Completed[]): string {
  const lines = all.flatMap(({ path, commands, options, takesJobs, choices }) => {
    const start = `complete -c person-etl -n '__person_etl_at "${path}"'`;
    // Options of the program are those of all commands.
    const startOfOption = path === "" ? "complete -c person-etl" : start;
    const jobs = takesJobs ? ["(__person_etl_jobs)"] : [];
    return [
      ...commands.map((command) => `${start} -f -a ${command.name()} -d ${quoted(command.description())}`),
      ...[...choices, ...jobs].map((word) => `${start} -f -a '${word}'`),
      ...options.map((option) => `${startOfOption}${optionForFish(option)} -d ${quoted(option.description)}`),
    ];
  });
  const values = [...new Set(all.flatMap(({ options }) => options.filter(takesValue).flatMap(flagsOf)))];
  const paths = all.filter(({ path }) => path !== "").map(({ path }) => quoted(path));
  return `# Completes person-etl in fish.
function __person_etl_at
  set -l path ""
  set -l skip
  for word in (commandline -opc)[2..]
    if set -q skip[1]
      set -e skip
    else if contains -- $word ${values.join(" ")}
      set skip yes
    else if contains -- (string trim "$path $word") ${paths.join(" ")}
      set path (string trim "$path $word")
    end
  end
  test "$path" = "$argv[1]"
end
function __person_etl_jobs
  set -l words (commandline -opc)
  set -l config
  for i in (seq (count $words))
    contains -- $words[$i] -c --config; and set config --config $words[(math $i + 1)]
    string match -q -- '--config=*' $words[$i]; and set config --config (string replace -- --config= '' $words[$i])
  end
  set config (string replace -r -- '^~/' "$HOME/" $config)
  $words[1] $config completion jobs 2>/dev/null
end
${lines.join("\n")}`;
}

function optionForFish(option: Option): string {
  const names = [
    ...(option.short ? [`-s ${option.short.slice(1)}`] : []),
    ...(option.long ? [`-l ${option.long.slice(2)}`] : []),
  ].join(" ");
  if (option.argChoices) return ` ${names} -x -a '${option.argChoices.join(" ")}'`;
  if (option.long === "--job") return ` ${names} -x -a '(__person_etl_jobs)'`;
  if (option.long === "--config") return ` ${names} -r -F`;
  return takesValue(option) ? ` ${names} -x` : ` ${names}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", String.raw`\'`)}'`;
}

const SHELLS: Readonly<Record<string, (all: readonly Completed[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};
