// Lines over time or over updates: uPlot, in the colours of the page.

import { $, axisSeconds, count, element, number } from "./words.js";

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const charts = new Map();
const FONT = "12px system-ui, sans-serif";

// options: {x: "seconds" | "updates", series: [{label, colour, dash, fill, band, value}], y: {min, max, format}, empty}
export function draw(id, data, options) {
  const place = $(id);
  const there = data && data[0] && data[0].length > 1 && data.slice(1).some((column) => column.some((v) => v !== null));
  if (!there) {
    remove(id);
    if (!place.querySelector(".empty")) place.replaceChildren(element("p", options.empty, { class: "empty" }));
    else place.querySelector(".empty").textContent = options.empty;
    return;
  }
  const shape = JSON.stringify([options.x, options.series.map((s) => [s.label, s.colour]), options.y || {}]);
  const old = charts.get(id);
  if (old && old.shape === shape) {
    old.plot.setData(data);
    return;
  }
  remove(id);
  place.replaceChildren();
  const plot = new uPlot(settings(place, options), data, place);
  charts.set(id, { plot, shape, options, data });
}

function remove(id) {
  const old = charts.get(id);
  if (old) {
    old.plot.destroy();
    charts.delete(id);
  }
}

function settings(place, options) {
  const seconds = options.x === "seconds", y = options.y || {};
  const axis = {
    stroke: () => colour("soft"), font: FONT, grid: { stroke: () => colour("line"), width: 1 },
    ticks: { stroke: () => colour("line"), width: 1, size: 5 },
  };
  const labels = (plot, splits) => {
    const span = plot.scales.x.max - plot.scales.x.min;
    return splits.map((at) => (seconds ? axisSeconds(at, span) : short(at)));
  };
  return {
    ...size(place),
    scales: { x: { time: false }, y: { range: range(y) } },
    axes: [
      { ...axis, values: labels, space: 70, label: seconds ? undefined : "updates of all chains", labelSize: 20,
        labelFont: FONT, size: 34 },
      { ...axis, size: 62, values: (plot, splits) => splits.map((at) => (y.format ? y.format(at) : short(at))) },
    ],
    series: [
      { label: seconds ? "time" : "updates", value: (plot, at) => (at === null ? "–" : seconds ? axisSeconds(at, at) : count(at)) },
      ...options.series.map((s) => ({
        label: s.label, stroke: s.colour ? () => colour(s.colour) : undefined, width: s.width ?? 2, dash: s.dash,
        fill: s.fill ? () => colour(s.fill) + "30" : undefined, points: { show: few, size: 6 }, spanGaps: false,
        value: (plot, at) => (at === null ? "–" : s.format ? s.format(at) : number(at)),
      })),
    ],
    bands: (options.bands || []).map((pair) => ({ series: pair, fill: () => colour("mark") + "2e" })),
    cursor: { drag: { x: true, y: false } },
    legend: { show: true, live: true },
  };
}

const few = (plot, series) => plot.data[series].filter((value) => value !== null).length < 3;

const short = (at) => (Math.abs(at) >= 1e6 ? number(at / 1e6, 4) + " M" : Math.abs(at) >= 1e4 ? number(at / 1e3, 4) + " k" : number(at, 5));

function range(y) {
  return (plot, low, high) => {
    if (low === null || high === null) return [0, 1];
    const least = y.min ?? low, most = Math.max(y.max ?? high, high), room = 0.07 * (most - least) || Math.abs(most) * 0.1 || 1;
    return [y.min ?? least - room, most + room];
  };
}

function size(place) {
  return { width: Math.max(240, place.clientWidth), height: window.innerWidth < 640 ? 180 : 220 };
}

export function resize() {
  for (const [id, { plot }] of charts) if ($(id).clientWidth) plot.setSize(size($(id)));
}

export function repaint() {
  for (const { plot } of charts.values()) plot.redraw(false);
}
