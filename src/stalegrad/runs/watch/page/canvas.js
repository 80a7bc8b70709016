// Pictures made of bins: who computed when, staleness over time, and its law.

import { colour } from "./charts.js";
import { $, axisSeconds, bytes, count, duration, percent, ticks } from "./words.js";

const FONT = "12px system-ui, sans-serif";

// A canvas with room for axes; what is drawn is in CSS pixels.
function begin(id, height, left = 76, bottom = 24) {
  const canvas = $(id), width = canvas.parentElement.clientWidth;
  if (!width) return null;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const to = canvas.getContext("2d");
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.font = FONT;
  to.textBaseline = "middle";
  return { to, canvas, left, top: 4, right: width - 8, bottom: height - bottom, width: width - 8 - left, height: height - bottom - 4 };
}

function nothing(at, text) {
  at.to.fillStyle = colour("soft");
  at.to.textAlign = "center";
  at.to.fillText(text, (at.left + at.right) / 2, (at.top + at.bottom) / 2);
}

function timeAxis(at, low, high) {
  const { to } = at;
  to.fillStyle = colour("soft");
  to.strokeStyle = colour("line");
  to.textAlign = "center";
  for (const second of ticks(low, high, at.width / 110)) {
    const x = at.left + ((second - low) / (high - low)) * at.width;
    to.beginPath();
    to.moveTo(x, at.bottom);
    to.lineTo(x, at.bottom + 4);
    to.stroke();
    to.fillText(axisSeconds(second, high - low), Math.min(Math.max(x, at.left + 16), at.right - 24), at.bottom + 14);
  }
}

const laneName = (pictures, lane) => {
  const first = lane * pictures.per_lane, chain = Math.floor(first / pictures.workers), worker = first % pictures.workers;
  return pictures.per_lane > 1 ? `${chain}·${worker}…` : pictures.lanes > pictures.workers ? `chain ${chain}·${worker}` : `worker ${worker}`;
};

function laneAxis(at, pictures) {
  const { to } = at, each = at.height / pictures.lanes, every = Math.ceil(14 / each);
  to.fillStyle = colour("soft");
  to.textAlign = "right";
  for (let lane = 0; lane < pictures.lanes; lane += every) to.fillText(laneName(pictures, lane), at.left - 8, at.top + (lane + 0.5) * each);
  to.strokeStyle = colour("faint");
  for (let lane = pictures.workers; lane < pictures.lanes; lane += pictures.workers) {
    to.beginPath();
    to.moveTo(at.left, at.top + lane * each);
    to.lineTo(at.right, at.top + lane * each);
    to.stroke();
  }
}

const laneHeight = (lanes) => Math.max(120, Math.min(560, lanes * (lanes <= 16 ? 26 : lanes <= 64 ? 9 : 4)));

export function lanes(pictures, whole, virtual) {
  const at = begin("lanes", laneHeight(pictures.lanes || 1) + 28);
  if (!at) return "";
  if (!pictures.bins) {
    nothing(at, "no gradient has come yet, or the rows of this run are elsewhere: watch its folder");
    return "";
  }
  return whole ? wholeRun(at, pictures) : lastMoments(at, pictures, virtual);
}

function wholeRun(at, pictures) {
  const { to } = at, busy = bytes(pictures.busy), dropped = bytes(pictures.dropped);
  const high = pictures.bins * pictures.width, x = at.width / pictures.bins, y = at.height / pictures.lanes;
  for (let lane = 0; lane < pictures.lanes; lane++) {
    for (let bin = 0; bin < pictures.bins; bin++) {
      const place = lane * pictures.bins + bin;
      to.fillStyle = colours.mark;
      to.globalAlpha = (busy[place] || 0) / 255;
      const from = Math.round(at.left + bin * x), wide = Math.round(at.left + (bin + 1) * x) - from;
      to.fillRect(from, at.top + lane * y, wide, Math.max(1, y - (y > 6 ? 2 : 0)));
      if (dropped[place]) {
        to.globalAlpha = Math.max(0.25, dropped[place] / 255);
        to.fillStyle = colours.bad;
        to.fillRect(from, at.top + (lane + 0.72) * y, wide, Math.max(1, 0.25 * y));
      }
    }
  }
  to.globalAlpha = 1;
  laneAxis(at, pictures);
  timeAxis(at, 0, high);
  const part = pictures.seen < pictures.total ? ` From ${count(pictures.seen)} of ${count(pictures.total)} gradients, evenly spread.` : "";
  return `The fuller the colour, the larger the share of that time in which the worker computed. Red: its gradients came too late and were dropped.${part}`;
}

const colours = {};
export function takeColours() {
  for (const name of ["mark", "bad", "soft", "line", "faint", "ink", "weak", "shade"]) colours[name] = colour(name);
}

function lastMoments(at, pictures, virtual) {
  const { to } = at, bars = pictures.bars;
  // As far back as every chain has bars, so that no lane looks idle which is not shown.
  const firsts = new Map();
  for (const [chain, , time, seconds] of bars) firsts.set(chain, Math.min(firsts.get(chain) ?? Infinity, time - seconds));
  let low = Math.max(...firsts.values());
  const high = Math.max(...bars.map((bar) => bar[2]));
  const typical = bars.map((bar) => bar[3]).sort((a, b) => a - b)[Math.floor(bars.length / 2)];
  low = Math.max(low, high - Math.max(60 * typical, 1e-5));
  if (!(high > low)) low = high - Math.max(typical, 1e-6);
  const scale = at.width / (high - low), y = at.height / pictures.lanes;
  for (const [, lane, time, seconds, , accepted] of bars) {
    if (time < low) continue;
    const x = at.left + Math.max(0, (time - seconds - low) * scale), end = at.left + (time - low) * scale;
    to.fillStyle = accepted ? colours.mark : colours.bad;
    to.globalAlpha = 0.8;
    to.fillRect(x, at.top + lane * y + Math.min(2, 0.1 * y), Math.max(0.7, end - x - 0.6), Math.max(1, y - Math.min(5, 0.25 * y)));
  }
  to.globalAlpha = 1;
  laneAxis(at, pictures);
  timeAxis(at, low, high);
  hover(at.canvas, (x, px) => {
    const lane = Math.floor((px - at.top) / y), time = low + (x - at.left) / scale;
    const bar = bars.find(([, l, end, seconds]) => l === lane && time <= end && time >= end - seconds);
    if (!bar) return null;
    return `worker ${bar[6]} of chain ${bar[0]}: ${duration(bar[3])}, τ = ${bar[4]}${bar[5] ? "" : ", dropped"}, done at ${duration(bar[2])}`;
  });
  const unit = virtual ? "virtual time" : "time";
  return `Each bar is a gradient: as long as it was computed, ending when its server dealt with it (${unit} ${axisSeconds(low, high - low)} to ${axisSeconds(high, high - low)}). Red ones came too late and were dropped. Gaps are exchange and waiting. Half of the gradients took less than ${duration(typical)}.`;
}

function hover(canvas, find) {
  canvas.onmousemove = (event) => {
    const box = canvas.getBoundingClientRect();
    canvas.title = find(event.clientX - box.left, event.clientY - box.top) || "";
  };
}

export function heat(pictures) {
  const rows = (pictures.edges || []).length;
  const at = begin("heat", 260, 52);
  if (!at) return "";
  if (!pictures.bins || !rows) {
    nothing(at, "no gradient has come yet");
    return "";
  }
  const values = bytes(pictures.heat), tall = values.length / pictures.bins;
  const { to } = at, x = at.width / pictures.bins, y = at.height / tall;
  to.fillStyle = colours.mark;
  for (let bin = 0; bin < pictures.bins; bin++) {
    for (let row = 0; row < tall; row++) {
      const value = values[bin * tall + row];
      if (!value) continue;
      to.globalAlpha = Math.max(0.04, value / 255);
      const from = Math.round(at.left + bin * x), top = Math.round(at.bottom - (row + 1) * y); // no seams
      to.fillRect(from, top, Math.round(at.left + (bin + 1) * x) - from, Math.round(at.bottom - row * y) - top);
    }
  }
  to.globalAlpha = 1;
  to.fillStyle = colours.soft;
  to.textAlign = "right";
  const every = Math.ceil(16 / y);
  for (let row = 0; row < tall; row += every) to.fillText(String(pictures.edges[row]), at.left - 8, at.bottom - (row + 0.5) * y);
  to.save();
  to.translate(12, (at.top + at.bottom) / 2);
  to.rotate(-Math.PI / 2);
  to.textAlign = "center";
  to.fillText("τ, updates", 0, 0);
  to.restore();
  timeAxis(at, 0, pictures.bins * pictures.width);
  const wide = tall > 16 ? " Beyond 16, a row stands for all values up to the next." : "";
  return `Each column is ${duration(pictures.width)}.${wide}`;
}

export function law(pictures) {
  const at = begin("law", 220, 52, 38);
  if (!at) return "";
  const [used, dropped] = pictures.law || [[], []];
  if (!used.length) {
    nothing(at, "no gradient has come yet");
    return "";
  }
  const { to } = at, most = Math.max(...used.map((value, tau) => value + dropped[tau])) || 1, x = at.width / used.length;
  const up = at.height / (1.05 * most);
  to.textAlign = "right";
  for (const share of ticks(0, most, 4)) {
    to.fillStyle = colours.soft;
    to.fillText(percent(share, most < 0.1 ? 1 : 0), at.left - 8, at.bottom - share * up);
    to.strokeStyle = colours.line;
    to.beginPath();
    to.moveTo(at.left, at.bottom - share * up);
    to.lineTo(at.right, at.bottom - share * up);
    to.stroke();
  }
  const gap = x > 4 ? Math.min(6, 0.15 * x) : 0;
  used.forEach((value, tau) => {
    to.fillStyle = colours.mark;
    to.fillRect(at.left + tau * x + gap / 2, at.bottom - value * up, x - gap, value * up);
    to.fillStyle = colours.bad;
    to.fillRect(at.left + tau * x + gap / 2, at.bottom - (value + dropped[tau]) * up, x - gap, dropped[tau] * up);
  });
  to.fillStyle = colours.soft;
  to.textAlign = "center";
  const every = Math.max(1, Math.ceil(26 / x));
  for (let tau = 0; tau < used.length; tau += every) {
    const last = pictures.law_open && tau === used.length - 1;
    to.fillText(last ? `≥ ${tau}` : String(tau), at.left + (tau + 0.5) * x, at.bottom + 12);
  }
  to.fillText("τ, how many updates old a gradient was when it came", (at.left + at.right) / 2, at.bottom + 29);
  const lost = dropped.reduce((a, b) => a + b, 0);
  return lost > 0 ? `Red: dropped, ${percent(lost, 2)} of all gradients.` : "No gradient was dropped.";
}
