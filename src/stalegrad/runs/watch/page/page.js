// The live page: takes over what the server says has changed, and draws the view that is open.

import * as canvas from "./canvas.js";
import { draw, repaint, resize } from "./charts.js";
import { $, axisSeconds, count, duration, element, known, number, percent } from "./words.js";

const VIEWS = ["overview", "workers", "staleness", "estimates", "step", "events", "recipe"];
const STATES = { running: "running", finished: "finished", interrupted: "interrupted", failed: "failed", killed: "killed" };
const run = { head: null, pictures: {}, functions: { now: [], history: [] }, progress: [], events: [], recipe: null, rights: {} };
let view = "overview", whole = false, chosen = 0, lost = false, source = null;

// ------------------------------------------------------------------------------------------------- connection

function connect() {
  if (source) source.close();
  source = new EventSource("api/events");
  source.addEventListener("state", (event) => {
    Object.assign(run, JSON.parse(event.data));
    setLost(false);
    render();
  });
  source.onerror = () => {
    setLost(true);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000); // refused: the browser would not try again
  };
}

function setLost(now) {
  if (lost === now) return;
  lost = now;
  document.body.classList.toggle("lost", lost);
  renderHead();
}

// ------------------------------------------------------------------------------------------------------ views

function render() {
  renderHead();
  drawing[view]();
}

function renderHead() {
  const { head, recipe } = run;
  if (recipe) {
    $("name").textContent = recipe.name;
    document.title = `${recipe.name} · ${head ? head.state : ""}`;
  }
  const state = lost ? "lost" : head ? head.state : "";
  $("state").className = `pill ${state}`;
  $("state").textContent = lost ? "the server is gone, looking for it" : STATES[state] || "waiting for the first numbers";
  if (!head) return;
  $("bar").style.width = percent(Math.min(1, head.progress), 2).replace(" ", "");
  const saved = known(head.saved_ago) ? `, as of the last checkpoint ${duration(head.saved_ago)} ago` : "";
  const virtual = recipe && recipe.virtual ? " (the pictures are in virtual time)" : "";
  $("when").textContent = `${percent(Math.min(1, head.progress), 1)} after ${duration(head.seconds)}${saved}${virtual}`;
  $("stop").hidden = !(run.rights.stop && head.state === "running" && !lost);
  const faults = run.events.filter((event) => event.kind === "fault").length;
  $("faults").hidden = !faults;
  $("faults").textContent = faults;
}

function fact(what, value, kind = "") {
  const box = element("div", null, { class: kind });
  box.append(element("b", value), element("span", what));
  return box;
}

const left = (head) => (head.progress > 0 && head.progress < 1 ? (head.seconds * (1 - head.progress)) / head.progress : NaN);

const drawing = {
  overview() {
    const { head, pictures } = run;
    if (!head) return;
    const updates = head.chains.reduce((sum, chain) => sum + chain.updates, 0);
    const dropped = head.chains.reduce((sum, chain) => sum + chain.dropped, 0);
    const tau = head.chains.reduce((sum, chain) => sum + chain.mean_staleness * chain.updates, 0) / Math.max(1, updates);
    const most = Math.max(...head.chains.map((chain) => chain.max_staleness));
    const rhat = Math.max(...run.functions.now.map((f) => (known(f.rhat) ? f.rhat : -Infinity)));
    const ess = Math.min(...run.functions.now.map((f) => (known(f.ess) ? f.ess : Infinity)));
    const faults = run.events.filter((event) => event.kind === "fault").length;
    const going = head.state === "running";
    $("facts").replaceChildren(
      fact(`of ${count(head.steps)} updates of each chain`, percent(Math.min(1, head.progress), 1)),
      fact(going ? "left, at this pace" : "in all", going ? duration(left(head)) : duration(head.seconds)),
      fact(going ? "gradients a second" : "gradients a second, on average", count(head.gradients_per_second)),
      fact("of their time workers compute", percent(head.busy), known(head.busy) && head.busy < 0.5 ? "warn" : ""),
      fact(`mean staleness, largest ${count(most)}`, number(tau, 3)),
      fact(`dropped, ${percent(dropped / Math.max(1, dropped + updates), 1)}`, count(dropped)),
      fact("largest R-hat", Number.isFinite(rhat) ? rhat.toFixed(3) : "–", rhat > 1.05 ? "warn" : ""),
      fact("fewest effective draws", Number.isFinite(ess) ? count(ess) : "–"),
      fact(faults === 1 ? "fault of a worker" : "faults of workers", count(faults), faults ? "bad" : ""),
    );
    draw("rate", overTime(pictures, pictures.rate), {
      x: "seconds", y: { min: 0 }, empty: "No gradient has come yet, or the rows of this run are elsewhere: watch its folder.",
      series: [{ label: "gradients a second", colour: "mark", fill: "mark", format: count }],
    });
    table("chains", ["chain", "updates", "", "dropped", "refused", "mean τ", "max τ"], head.chains.map((chain, s) => [
      `chain ${s}`, count(chain.updates), percent(chain.updates / head.steps), count(chain.dropped), count(chain.refused),
      number(chain.mean_staleness, 3), count(chain.max_staleness),
    ]));
  },
  workers() {
    const { pictures, recipe } = run, virtual = recipe && recipe.virtual;
    $("lanes-note").textContent = canvas.lanes(pictures, whole, virtual);
    $("lanes-words").textContent = pictures.lanes ? `${count(pictures.lanes * pictures.per_lane)} workers` : "";
    draw("busy", overTime(pictures, pictures.share), {
      x: "seconds", y: { min: 0, max: 1, format: (at) => percent(at) }, empty: "How long gradients took is not known.",
      series: [{ label: "computing", colour: "mark", fill: "mark", format: (at) => percent(at, 1) }],
    });
  },
  staleness() {
    $("heat-note").textContent = canvas.heat(run.pictures);
    $("law-note").textContent = canvas.law(run.pictures);
  },
  estimates() {
    const { now, history } = run.functions, head = run.head || {};
    chosen = Math.min(chosen, Math.max(0, now.length - 1));
    const body = element("tbody");
    now.forEach((f, index) => {
      const row = element("tr", null, { "aria-selected": index === chosen, onclick: () => { chosen = index; drawing.estimates(); } });
      const name = element("td");
      name.append(element("button", f.name, { type: "button" }));
      row.append(name, element("td", number(f.value, 5)), element("td", number(f.error, 2)),
        element("td", known(f.rhat) ? f.rhat.toFixed(3) : "–", { class: f.rhat > 1.05 ? "bad" : f.rhat > 1.01 ? "warn" : "" }), element("td", count(f.ess)));
      body.append(row);
    });
    $("functions").replaceChildren(heading(["", "φ̂", "error", "R-hat", "eff. draws"]), body);
    $("functions-note").textContent = now.length
      ? `From ${count(head.evaluated)} of ${count(head.kept)} draws, evenly spaced. No error is given while a chain is still on its way.`
      : "There are no draws yet: chains are still in their burn-in, or draws are elsewhere until a checkpoint.";
    const of = now[chosen], base = 2 + 4 * chosen, updates = history[1];
    $("function-name").textContent = of ? of.name : "φ̂";
    const value = history[base], error = history[base + 1];
    const band = (sign) => value && value.map((v, i) => (known(v) && known(error[i]) ? v + sign * 2 * error[i] : null));
    draw("estimate", of && updates && [updates, band(1), value, band(-1)], {
      x: "updates", empty: "No estimate yet.", bands: [[1, 3]],
      series: [{ label: "+ 2 errors", colour: "faint", width: 1 }, { label: "φ̂", colour: "mark" }, { label: "− 2 errors", colour: "faint", width: 1 }],
    });
    draw("rhat", of && updates && [updates, history[base + 2]], {
      x: "updates", y: { min: 1 }, empty: "R-hat needs two chains and some draws.", series: [{ label: "R-hat", colour: "mark" }],
    });
    draw("ess", of && updates && [updates, history[base + 3]], {
      x: "updates", y: { min: 0 }, empty: "Not enough draws yet.", series: [{ label: "effective draws", colour: "mark", format: count }],
    });
  },
  step() {
    const [seconds, , loss, delay, limit] = run.progress, head = run.head || {}, why = head.why_not || {};
    draw("delay", seconds && [seconds, delay, limit], {
      x: "seconds", y: { min: 0 },
      empty: why.delay || "Not known yet.",
      series: [{ label: "h·λ·(τ + ½)", colour: "mark" }, { label: "limit", colour: "bad", dash: [6, 4] }],
    });
    const share = head.delay / head.delay_limit;
    $("delay-note").textContent = known(share) ? `Now ${number(head.delay, 3)} of ${number(head.delay_limit, 3)}: ${percent(share)}. Variances are noticeably off well before the limit, from about an eighth of it.` : known(head.delay) ? `Now ${number(head.delay, 3)}. There is no limit in closed form for this sampler.` : "";
    draw("loss", seconds && [seconds, loss], {
      x: "seconds", empty: why.loss || "Not known yet.",
      series: [{ label: "loss", colour: "mark" }],
    });
  },
  events() {
    const list = $("event-list"), open = new Set([...list.querySelectorAll("details[open]")].map((d) => d.dataset.key));
    const items = gathered([...run.events].reverse()).map(({ event, index, earlier }) => {
      const more = earlier ? ` (and ${count(earlier)} checkpoint${earlier === 1 ? "" : "s"} before)` : "";
      const item = element("li", null, { class: event.kind }), box = element("div", event.text + more);
      item.append(element("time", duration(event.seconds)), box);
      if (event.details && event.details.trim() !== event.text) {
        const details = element("details", null), key = String(run.events.length - index);
        details.dataset.key = key;
        details.open = open.has(key);
        details.append(element("summary", "traceback and details"), element("pre", event.details));
        box.append(details);
      }
      return item;
    });
    list.replaceChildren(...(items.length ? items : [element("li", "Nothing has happened yet.")]));
  },
  recipe() {
    if (!run.recipe) return;
    const rows = [["run", run.recipe.name], ["folder", run.recipe.store || "not stored"], ["stalegrad", run.recipe.version], ...Object.entries(run.recipe.parameters)];
    const body = element("tbody");
    for (const [name, value] of rows) {
      const row = element("tr");
      row.append(element("td", name), element("td", value));
      body.append(row);
    }
    $("recipe-table").replaceChildren(body);
  },
};

// Checkpoints that follow each other are one line.
function gathered(events) {
  const found = [];
  events.forEach((event, index) => {
    const last = found[found.length - 1];
    if (last && last.event.kind === "checkpoint" && event.kind === "checkpoint") last.earlier += 1;
    else found.push({ event, index, earlier: 0 });
  });
  return found;
}

function overTime(pictures, values) {
  if (!values || !values.length) return null;
  // The last bin is not over; a point in the middle of each.
  const at = values.map((_, bin) => Math.min((bin + 0.5) * pictures.width, pictures.end));
  return [at, values];
}

function heading(names) {
  const head = element("thead"), row = element("tr");
  row.append(...names.map((name) => element("th", name, { scope: "col" })));
  head.append(row);
  return head;
}

function table(id, names, rows) {
  const body = element("tbody");
  for (const cells of rows) {
    const row = element("tr");
    row.append(...cells.map((cell) => element("td", cell)));
    body.append(row);
  }
  $(id).replaceChildren(heading(names), body);
}

function show() {
  view = VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "overview";
  for (const name of VIEWS) $(name).hidden = name !== view;
  for (const link of $("tabs").querySelectorAll("a")) {
    if (link.hash === `#${view}`) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  render();
  resize();
}

// ---------------------------------------------------------------------------------------------------- buttons

function part(of) {
  whole = of;
  $("lanes-whole").setAttribute("aria-pressed", whole);
  $("lanes-recent").setAttribute("aria-pressed", !whole);
  drawing.workers();
}

$("lanes-whole").addEventListener("click", () => part(true));
$("lanes-recent").addEventListener("click", () => part(false));
$("stop").addEventListener("click", async () => {
  if (!confirm("Stop the run? What has been sampled is kept, as after Ctrl-C.")) return;
  $("stop").disabled = true;
  const answer = await fetch("api/stop", { method: "POST", headers: { "X-Stalegrad": "stop" } });
  $("stop").textContent = answer.ok ? "stopping…" : "not allowed";
});
window.addEventListener("hashchange", show);
let soon = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(soon);
  soon = requestAnimationFrame(() => { resize(); render(); });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  canvas.takeColours();
  repaint();
  render();
});
canvas.takeColours();
show();
connect();
