import { parseHTML } from "linkedom";

/** The parts of an element that the tests read. */
interface Element {
  readonly textContent: string;
  getAttribute(name: string): string | null;
  querySelector(selector: string): Element | null;
  querySelectorAll(selector: string): Iterable<Element>;
}

/** Content of the page as text. */
export interface PageContent {
  /** Headings of the sections. */
  readonly headings: readonly string[];
  /** Remarks by the ID of their section. */
  readonly notes: Readonly<Record<string, readonly string[]>>;
  /** Tables by their caption: rows by column, every value as shown. */
  readonly tables: Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>;
  /** Tooltips of the marks of each chart, by its title. */
  readonly charts: Readonly<Record<string, readonly string[]>>;
  /** Fields of people: `person.gender 97.1%`. */
  readonly fields: readonly string[];
}

const textOf = (element: Element | null) => (element?.textContent ?? "").replace(/\s+/g, " ").trim();
const textsOf = (root: Element, selector: string) => [...root.querySelectorAll(selector)].map(textOf);

/** Reads the page's HTML. */
export function readPageContent(html: string): PageContent {
  // Its types need those of a browser.
  const document = parseHTML(html).document as Element;
  const sections = [...document.querySelectorAll("section")];
  return {
    headings: textsOf(document, "h2"),
    notes: Object.fromEntries(
      sections.map((section) => [section.getAttribute("id") ?? "", textsOf(section, ".note")]),
    ),
    tables: Object.fromEntries(
      [...document.querySelectorAll("table")].map((table) => {
        const columns = textsOf(table, "thead th");
        const rows = [...table.querySelectorAll("tbody tr")].map((row) =>
          Object.fromEntries(textsOf(row, "th, td").map((text, at) => [columns[at] ?? "", text])),
        );
        return [textOf(table.querySelector("caption")), rows];
      }),
    ),
    charts: Object.fromEntries(
      [...document.querySelectorAll("figure")].map((figure) => [
        textOf(figure.querySelector("figcaption")),
        textsOf(figure, "svg title"),
      ]),
    ),
    fields: [...document.querySelectorAll("details")].flatMap((details) => {
      const [table = ""] = textOf(details.querySelector("summary")).split(" ");
      return textsOf(details, ".fields li").map((text) => `${table}.${text}`);
    }),
  };
}
