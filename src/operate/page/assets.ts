/** Script of the page: replaces the section on running jobs, and reloads the page when a job has ended. */
export const script = `
const EVERY_MS = 5000;
async function look() {
  const now = document.getElementById("running");
  if (!now || document.hidden) return;
  const response = await fetch("/running", { cache: "no-store" }).catch(() => null);
  if (response?.status === 401) return location.reload();
  if (!response?.ok) return now.classList.add("late");
  const next = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("running");
  if (!next) return;
  if (next.dataset.ended !== now.dataset.ended) return location.reload();
  now.replaceWith(document.adoptNode(next));
}
setInterval(look, EVERY_MS);
document.addEventListener("visibilitychange", look);
`;

export const style = `
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --card: #fff; --ink: #1b2230; --soft: #566072; --line: #e1e5eb; --link: #1d4fc4;
  --good: #17703f; --busy: #1d4fc4; --warn: #8a5300; --bad: #b3261e; --fill: #2f6fdb; --track: #e6e9ef; --code: #eef1f5;
  --series-1: #2f6fdb; --series-2: #e08a00; --series-3: #12937f; --series-4: #c0418f; --series-5: #7c5cd6; --series-6: #7d8797;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12151b; --card: #1a1f28; --ink: #e6e9ef; --soft: #9fa9b9; --line: #2b323e; --link: #86b0ff;
    --good: #6fd39b; --busy: #86b0ff; --warn: #f0b45a; --bad: #ff9a90; --fill: #5b93f5; --track: #2b323e; --code: #242b36;
    --series-1: #5b93f5; --series-2: #f0a63c; --series-3: #3dbfa9; --series-4: #e277b8; --series-5: #a48af0; --series-6: #98a2b3;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip:not(:focus) { position: absolute; left: -999px; }
.skip { padding: 8px; }
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 22px; }
.brand { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 2px 24px; color: var(--soft); font-size: 13px; }
.brand, .lead, .note, .problems, figcaption { overflow-wrap: anywhere; }
.brand b { color: var(--ink); font-weight: 650; }
h1 { margin: 12px 0 2px; font-size: 24px; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; }
h1 .state { font-size: inherit; }
.lead { margin: 0; color: var(--soft); }
nav ul { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 12px 0 0; padding: 0; list-style: none; font-size: 13px; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
section { margin: 16px 0; padding: 16px 20px 18px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
h2 { margin: 0 0 10px; font-size: 16px; line-height: 1.3; font-weight: 650; }
h3 { margin: 18px 0 6px; font-size: 13px; font-weight: 600; color: var(--soft); }
p { margin: 0 0 8px; }
.note { margin: 0 0 6px; color: var(--soft); font-size: 14px; }
.note:last-child { margin-bottom: 0; }
.problems { margin: 0; padding: 0; list-style: none; }
.problems li { margin: 0 0 8px; }
.problems li:last-child { margin: 0; }
.problems .do { display: block; color: var(--soft); font-size: 14px; }
.state { white-space: nowrap; }
.state.good { color: var(--good); } .state.busy { color: var(--busy); } .state.warn { color: var(--warn); }
.state.bad { color: var(--bad); } .state.off { color: var(--soft); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 34px 6px 0; border-top: 1px solid var(--line); text-align: left; vertical-align: top; font-weight: 400; white-space: nowrap; }
thead th { padding-top: 0; border-top: 0; color: var(--soft); font-size: 12.5px; vertical-align: bottom; }
tbody th { font-weight: 500; }
.number { text-align: right; }
.figures tr::after { content: ""; display: table-cell; width: 100%; border-top: 1px solid var(--line); }
.figures thead tr::after { border-top: 0; }
.text { min-width: 200px; white-space: normal; }
.error { display: block; max-width: 420px; color: var(--soft); white-space: normal; }
.zero { color: var(--soft); }
time { white-space: nowrap; }
code { padding: 1px 5px; border-radius: 4px; background: var(--code); font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
details { border-top: 1px solid var(--line); }
details:last-child { border-bottom: 1px solid var(--line); }
summary { padding: 8px 0; cursor: pointer; font-size: 14px; }
summary > span { margin-left: 8px; color: var(--soft); }
details > .scroll { padding: 2px 0 10px; }
.charts + .scroll { margin-top: 14px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 20px 28px; margin-bottom: 6px; }
.chart { margin: 0; max-width: 480px; min-width: 0; }
figcaption { margin-bottom: 4px; font-size: 13px; font-weight: 600; }
.plot { display: block; width: 100%; height: auto; overflow: visible; color: var(--soft); }
.plot text { font-size: 11px; white-space: pre; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 4px 0 0; padding: 0; list-style: none; color: var(--soft); font-size: 12.5px; }
.key { display: inline-block; width: 9px; height: 9px; margin-right: 6px; border-radius: 2px; }
${[1, 2, 3, 4, 5, 6].map((at) => `.key-${at} { background: var(--series-${at}); }`).join("\n")}
meter { display: inline-block; width: 96px; height: 8px; vertical-align: middle; border: 0; border-radius: 4px; background: var(--track); -webkit-appearance: none; appearance: none; }
meter::-webkit-meter-inner-element { display: block; height: 8px; }
meter::-webkit-meter-bar { height: 8px; border: 0; border-radius: 4px; background: var(--track); }
meter::-webkit-meter-optimum-value { border-radius: 4px; background: var(--fill); }
meter::-moz-meter-bar { border-radius: 4px; background: var(--fill); }
.fields { columns: 3 300px; column-gap: 40px; margin: 0 0 10px; padding: 0; list-style: none; font-size: 13px; font-variant-numeric: tabular-nums; }
.fields li { display: grid; grid-template-columns: minmax(0, 1fr) 64px 54px; gap: 12px; align-items: center; padding: 2px 0; break-inside: avoid; }
.fields span { overflow-wrap: anywhere; }
.fields meter { width: 64px; }
footer { padding-top: 4px; padding-bottom: 28px; color: var(--soft); font-size: 13px; }
.login { max-width: 380px; margin: 12vh auto 0; }
.login label { display: block; margin-bottom: 4px; }
.login input { width: 100%; padding: 8px 10px; border: 1px solid var(--soft); border-radius: 6px; background: var(--ground); color: var(--ink); font: inherit; }
.login button { margin-top: 12px; padding: 8px 16px; border: 0; border-radius: 6px; background: var(--link); color: var(--card); font: inherit; cursor: pointer; }
@media (max-width: 640px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; }
  section { padding: 14px 14px 16px; border-radius: 8px; }
  h1 { font-size: 20px; }
  .extra { display: none; }
  th, td { padding-right: 16px; }
  summary > span { display: inline-block; margin: 0 8px 0 0; }
  .texts, .texts tbody, .texts tr, .texts th, .texts td { display: block; }
  .texts thead { display: none; }
  .texts th, .texts td { padding: 2px 0; border: 0; text-align: left; }
  .texts tr { padding: 8px 0; border-top: 1px solid var(--line); }
  .texts tr:first-child { border-top: 0; }
  .texts .extra { display: none; }
}
`;

export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2f6fdb"/><path d="M4 12V9m4 3V4m4 8V7" stroke="#fff" stroke-width="2" stroke-linecap="round"/></svg>`;
