/** A parsed systemd unit. */
export interface Unit {
  /** Lines that are not settings, and unknown settings. */
  readonly problems: readonly string[];
  values(section: string, name: string): readonly string[];
}

/** Settings that our unit may use, by section (systemd.unit, systemd.service, systemd.exec, systemd.resource-control). */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  Unit: ["Description", "Documentation", "Wants", "After"],
  Service: (
    "Type ExecStart ExecReload SuccessExitStatus RestartPreventExitStatus Restart RestartSec TimeoutStopSec KillMode " +
    "LimitCORE CoredumpFilter ProtectKernelLogs ProtectClock ProtectHostname ProtectProc PrivateUsers RestrictRealtime RestrictSUIDSGID SystemCallArchitectures SystemCallFilter " +
    "DynamicUser StateDirectory StateDirectoryMode Environment LoadCredential UMask MemoryMax NoNewPrivileges ProtectSystem " +
    "ProtectHome PrivateTmp PrivateDevices ProtectKernelTunables ProtectKernelModules ProtectControlGroups RestrictAddressFamilies RestrictNamespaces LockPersonality CapabilityBoundingSet"
  ).split(" "),
  Install: ["WantedBy"],
};

/** Parses a unit file. */
export function readUnit(text: string): Unit {
  const problems: string[] = [];
  const settings: { readonly section: string; readonly name: string; readonly value: string }[] = [];
  let section = "";
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const header = /^\[(\w+)\]$/.exec(line)?.[1];
    const [, name, value] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
    if (header !== undefined) section = header;
    else if (name === undefined || value === undefined) problems.push(`no setting: ${line}`);
    else if (!KNOWN[section]?.includes(name)) problems.push(`unknown in [${section}]: ${name}`);
    else settings.push({ section, name, value });
  }
  return {
    problems,
    values: (of, wanted) =>
      settings.filter((one) => one.section === of && one.name === wanted).map(({ value }) => value),
  };
}
