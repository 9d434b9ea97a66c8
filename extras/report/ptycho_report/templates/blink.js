"use strict";
/* Two runs of a scan in one place, in turn: by the button, by the key b, or on their own. */
document.documentElement.classList.add("script");
class Blink {
  constructor(root) {
    this.root = root; this.turn = 0; this.timer = 0;
    this.part = root.querySelector("select[data-part]");
    this.runs = [...root.querySelectorAll("select[data-run]")];
    [this.part, ...this.runs].forEach(choice => choice.addEventListener("change", () => this.draw()));
    root.querySelector("[data-act=turn]").addEventListener("click", () => this.other());
    root.querySelector("[data-act=blink]").addEventListener("click", event => this.start(event.currentTarget));
    this.draw();
  }
  other() { this.turn = 1 - this.turn; this.draw(); }
  start(button) {
    const on = !this.timer;
    if (on) this.timer = setInterval(() => this.other(), 700); else { clearInterval(this.timer); this.timer = 0; }
    button.setAttribute("aria-pressed", on);
  }
  draw() {
    const run = this.runs[this.turn], figures = [...this.root.parentElement.querySelectorAll("figure[data-part]")];
    const shown = figures.find(figure => figure.dataset.run === run.value && figure.dataset.part === this.part.value);
    const copies = shown ? [...shown.children].slice(0, 2).map(child => child.cloneNode(true)) : [];
    this.root.querySelector(".stage div").replaceChildren(...copies);
    this.root.querySelector(".stage figcaption").textContent = `${run.selectedOptions[0].textContent}: ${this.part.value}` + (shown ? "" : " is not there");
  }
}
const blinks = [...document.querySelectorAll(".blink")].map(root => new Blink(root));
document.addEventListener("keydown", event => {
  if (event.key !== "b" || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  blinks.forEach(blink => blink.other());
});
