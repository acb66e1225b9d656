"use strict";
// The page is whole without this: it opens what a link or the printer needs, and copies.
const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => document.querySelectorAll("details.card").forEach((card) => { card.open = true; }));
for (const button of document.querySelectorAll(".copy")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.nextElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
