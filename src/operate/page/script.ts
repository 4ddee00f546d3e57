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
