declare module "parse-prometheus-text-format" {
  /** Reads Prometheus's text form; throws where it isn't that. */
  export default function parse(text: string): readonly {
    readonly name: string;
    readonly help: string;
    readonly type: string;
    readonly metrics: readonly {
      readonly value?: string;
      readonly labels?: Readonly<Record<string, string>>;
    }[];
  }[];
}
