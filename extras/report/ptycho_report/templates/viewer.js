"use strict";
/* Linked maps: values from the 16 bits of a PNG, moved, zoomed, read out, with histogram and line profile. */
document.documentElement.classList.add("script");
const STOPS = {
  gray: [[0, 0, 0], [255, 255, 255]],
  viridis: [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]],
  magma: [[0, 0, 4], [28, 16, 68], [79, 18, 123], [129, 37, 129], [181, 54, 122], [229, 80, 100], [251, 135, 97], [254, 194, 135], [252, 253, 191]],
  twilight: [[226, 217, 226], [196, 206, 212], [149, 181, 199], [114, 151, 193], [98, 118, 186], [94, 81, 173], [89, 42, 143], [69, 19, 92], [47, 20, 54], [74, 19, 66], [116, 30, 79], [152, 53, 80], [178, 86, 82], [194, 124, 99], [204, 163, 137], [216, 199, 190], [226, 217, 226]],
  RdBu_r: [[5, 48, 97], [67, 147, 195], [209, 229, 240], [247, 247, 247], [253, 219, 199], [214, 96, 77], [103, 0, 31]]
};
function colourAt(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2), t = at - k;
  return stops[k].map((low, c) => low + t * (stops[k + 1][c] - low));
}
function readMap(canvas) {
  const image = canvas.parentElement.querySelector("img"), data = canvas.dataset;
  const width = image.width, height = image.height, page = document.createElement("canvas");
  page.width = width; page.height = height;
  const context = page.getContext("2d", {willReadFrequently: true});
  context.drawImage(image, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height), values = new Float32Array(width * height);
  const first = +data.first, last = +data.last, low = +data.low, high = +data.high;
  for (let i = 0; i < values.length; i++) {
    const p = 4 * i;
    const value = pixels.data[p + 2] ? first + (last - first) * (256 * pixels.data[p] + pixels.data[p + 1]) / 65535 : NaN;
    values[i] = value;
    const colour = Number.isNaN(value) ? [0, 0, 0] : colourAt(STOPS[data.colours], (value - low) / (high - low || 1));
    pixels.data.set([...colour, Number.isNaN(value) ? 0 : 255], p);
  }
  context.putImageData(pixels, 0, 0);
  return {canvas, page, width, height, values, low, high, title: data.title, unit: data.unit};
}
class Viewer {
  constructor(root) {
    this.root = root;
    this.pixel = +root.dataset.pixelNm || 0;
    this.maps = [...root.querySelectorAll("canvas[data-first]")].map(readMap);
    this.active = this.maps[0];
    this.tool = "pan"; this.zoom = 1; this.x = 0.5; this.y = 0.5;      /* middle of the view, as shares of the map */
    this.cross = null; this.line = null; this.drag = null;
    this.maps.forEach(map => this.listen(map));
    root.querySelectorAll("button").forEach(button => button.addEventListener("click", () => this.press(button)));
    this.draw();
  }
  listen(map) {
    const canvas = map.canvas;
    canvas.addEventListener("pointerdown", event => { canvas.setPointerCapture(event.pointerId); this.active = map; this.begin(this.place(map, event), event); });
    canvas.addEventListener("pointermove", event => this.move(map, this.place(map, event), event));
    canvas.addEventListener("pointerup", () => { this.drag = null; });
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("wheel", event => { if (event.ctrlKey) return; event.preventDefault(); this.active = map; this.scale(event.deltaY < 0 ? 1.25 : 0.8, this.place(map, event)); }, {passive: false});
    canvas.addEventListener("keydown", event => this.key(map, event));
    canvas.addEventListener("focus", () => { this.active = map; this.draw(); });
  }
  side(map) { return Math.max(map.width, map.height); }
  /* Places are shares of the larger side, so that maps of other resolution follow. */
  place(map, event) {
    const box = map.canvas.getBoundingClientRect();
    return {x: this.x + ((event.clientX - box.left) / box.width - 0.5) / this.zoom, y: this.y + ((event.clientY - box.top) / box.height - 0.5) / this.zoom};
  }
  begin(place, event) {
    this.cross = place;
    if (this.tool === "line") this.line = {from: place, to: place};
    this.drag = {clientX: event.clientX, clientY: event.clientY, x: this.x, y: this.y};
    this.draw();
  }
  move(map, place, event) {
    if (this.drag && this.tool === "pan") {
      const width = map.canvas.getBoundingClientRect().width * this.zoom;
      this.x = this.drag.x - (event.clientX - this.drag.clientX) / width;
      this.y = this.drag.y - (event.clientY - this.drag.clientY) / width;
    } else {
      this.cross = place;
      if (this.drag && this.line) this.line.to = place;
    }
    this.draw();
  }
  scale(factor, about) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), 64), ratio = this.zoom / zoom;
    const at = about || this.cross || {x: this.x, y: this.y};
    this.x = at.x + (this.x - at.x) * ratio; this.y = at.y + (this.y - at.y) * ratio; this.zoom = zoom;
    this.draw();
  }
  showAll() { this.zoom = 1; this.x = this.y = 0.5; this.draw(); }
  press(button) {
    const act = button.dataset.act;
    if (act === "in") this.scale(1.5); else if (act === "out") this.scale(1 / 1.5); else if (act === "all") this.showAll();
    else {
      this.tool = button.dataset.tool;
      this.root.querySelectorAll("[data-tool]").forEach(other => other.setAttribute("aria-pressed", other === button));
    }
  }
  key(map, event) {
    const step = (event.shiftKey ? 10 : 1) / this.side(map), at = this.cross || {x: this.x, y: this.y};
    const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    this.active = map;
    if (moves[event.key]) {
      this.cross = {x: at.x + moves[event.key][0], y: at.y + moves[event.key][1]};
      if (this.line && this.line.open) this.line.to = this.cross;
      const reach = 0.48 / this.zoom;                                    /* the view follows the cross */
      this.x = Math.min(Math.max(this.x, this.cross.x - reach), this.cross.x + reach);
      this.y = Math.min(Math.max(this.y, this.cross.y - reach), this.cross.y + reach);
    } else if (event.key === "+" || event.key === "=") return event.preventDefault(), this.scale(1.25);
    else if (event.key === "-") return event.preventDefault(), this.scale(0.8);
    else if (event.key === "0") return event.preventDefault(), this.showAll();
    else if (event.key === "l") {
      if (this.line && this.line.open) this.line.open = false; else this.line = {from: at, to: at, open: true};
    } else return;
    event.preventDefault();
    this.draw();
  }
  value(map, place) {
    const side = this.side(map), col = Math.floor(place.x * side), row = Math.floor(place.y * side);
    return col < 0 || row < 0 || col >= map.width || row >= map.height ? NaN : map.values[row * map.width + col];
  }
  length(share) {                                                        /* of the larger side, in words */
    const pixels = share * this.side(this.maps[0]);
    if (!this.pixel) return pixels.toFixed(1) + " px";
    const nm = pixels * this.pixel;
    return Math.abs(nm) >= 1000 ? (nm / 1000).toFixed(3) + " µm" : nm.toFixed(1) + " nm";
  }
  draw() {
    this.maps.forEach(map => this.drawMap(map));
    this.histogram(); this.profile();
    if (!this.cross) return;
    const told = this.maps.map(map => { const v = this.value(map, this.cross); return map.title + " " + (Number.isNaN(v) ? "unknown" : v.toPrecision(4) + (map.unit && " " + map.unit)); });
    this.root.querySelector("output").textContent = `right ${this.length(this.cross.x)}, down ${this.length(this.cross.y)}: ${told.join(", ")}`;
  }
  drawMap(map) {
    const context = map.canvas.getContext("2d"), size = map.canvas.width, scale = size * this.zoom / this.side(map);
    const at = p => [((p.x - this.x) * this.zoom + 0.5) * size, ((p.y - this.y) * this.zoom + 0.5) * size];
    const [left, top] = at({x: 0, y: 0});
    context.clearRect(0, 0, size, size);
    context.imageSmoothingEnabled = scale < 1;
    context.drawImage(map.page, left, top, map.width * scale, map.height * scale);
    const stroke = (draw) => { for (const [colour, width] of [["#000", 3], ["#fff", 1.2]]) { context.strokeStyle = colour; context.lineWidth = width; context.beginPath(); draw(); context.stroke(); } };
    if (this.line) { const a = at(this.line.from), b = at(this.line.to); stroke(() => { context.moveTo(...a); context.lineTo(...b); }); }
    if (this.cross) { const [x, y] = at(this.cross); stroke(() => { context.moveTo(x - 8, y); context.lineTo(x + 8, y); context.moveTo(x, y - 8); context.lineTo(x, y + 8); }); }
    this.drawBar(context, size);
  }
  drawBar(context, size) {
    const seen = this.side(this.maps[0]) / this.zoom * (this.pixel || 1), power = 10 ** Math.floor(Math.log10(seen / 5));
    const length = power * [5, 2, 1].find(step => step * power <= seen / 5), width = size * length / seen;
    context.fillStyle = "#000"; context.fillRect(11, size - 19, width + 2, 9);
    context.fillStyle = "#fff"; context.fillRect(12, size - 18, width, 7);
    context.font = "15px system-ui, sans-serif"; context.lineWidth = 3; context.strokeStyle = "#000";
    const text = this.pixel ? (length >= 1000 ? length / 1000 + " µm" : +length.toPrecision(1) + " nm") : +length.toPrecision(1) + " px";
    context.strokeText(text, 12, size - 25); context.fillText(text, 12, size - 25);
  }
  plot(name, xs, ys, labels) {
    const canvas = this.root.querySelector(`[data-plot=${name}]`), context = canvas.getContext("2d"), {width, height} = canvas;
    const ink = getComputedStyle(canvas).color, low = Math.min(...ys.filter(Number.isFinite)), high = Math.max(...ys.filter(Number.isFinite));
    context.clearRect(0, 0, width, height);
    if (xs.length < 2 || !Number.isFinite(low)) return;
    const px = x => 8 + (width - 16) * (x - xs[0]) / (xs[xs.length - 1] - xs[0] || 1), py = y => height - 24 - (height - 46) * (y - low) / (high - low || 1);
    context.strokeStyle = context.fillStyle = ink; context.lineWidth = 1.5; context.font = "13px system-ui, sans-serif";
    context.beginPath();
    let pen = false;
    xs.forEach((x, k) => { if (!Number.isFinite(ys[k])) { pen = false; return; } context[pen ? "lineTo" : "moveTo"](px(x), py(ys[k])); pen = true; });
    context.stroke();
    context.fillText(labels[0], 8, height - 6); context.textAlign = "right"; context.fillText(labels[1], width - 8, height - 6);
    context.fillText(`${labels[2]}: ${low.toPrecision(3)} to ${high.toPrecision(3)}`, width - 8, 15); context.textAlign = "left";
  }
  histogram() {
    const map = this.active, side = this.side(map), half = 0.5 / this.zoom, counts = new Array(64).fill(0);
    const [x0, x1, y0, y1] = [this.x - half, this.x + half, this.y - half, this.y + half].map(v => Math.round(v * side));
    for (let row = Math.max(0, y0); row < Math.min(map.height, y1); row++) for (let col = Math.max(0, x0); col < Math.min(map.width, x1); col++) {
      const k = Math.floor(64 * (map.values[row * map.width + col] - map.low) / (map.high - map.low || 1));
      if (k >= 0 && k < 64) counts[k]++;
    }
    const words = v => v.toPrecision(3) + (map.unit && " " + map.unit);
    this.plot("histogram", counts.map((_, k) => k), counts, [words(map.low), words(map.high), map.title + ", pixels"]);
  }
  profile() {
    if (!this.line) return;
    const map = this.active, {from, to} = this.line, long = Math.hypot(to.x - from.x, to.y - from.y), count = Math.max(2, Math.round(long * this.side(map)));
    const xs = [...Array(count).keys()], ys = xs.map(k => this.value(map, {x: from.x + (to.x - from.x) * k / (count - 1), y: from.y + (to.y - from.y) * k / (count - 1)}));
    this.plot("profile", xs, ys, ["0", this.length(long), map.title + (map.unit && " / " + map.unit)]);
  }
}
window.addEventListener("load", () => document.querySelectorAll(".viewer").forEach(root => { root.viewer = new Viewer(root); }));
