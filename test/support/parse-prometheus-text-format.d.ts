declare module "parse-prometheus-text-format" {
  /** Parses Prometheus's text format; throws for other text. */
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
