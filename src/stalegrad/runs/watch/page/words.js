// Numbers as text, and elements out of text: nothing that comes from a run is ever taken for markup.

export const $ = (id) => document.getElementById(id);

export function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  return made;
}

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US") : "–";
}

export function number(value, digits = 4) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(digits - 1).replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

export function percent(value, digits = 0) {
  return known(value) ? (100 * value).toFixed(digits) + " %" : "–";
}

export function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 1e-3) return (seconds * 1e6).toFixed(0) + " µs";
  if (seconds < 1) return (seconds * 1e3).toFixed(1) + " ms";
  if (seconds < 60) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), two = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)} h` : `${minutes}:${two(whole % 60)} min`;
}

// Where labels go on an axis: round numbers, about so many.
export function ticks(low, high, about) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, about), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * span; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// As many digits as it takes to tell the labels of an axis apart.
export function axisSeconds(at, span) {
  const digits = (unit) => Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(Math.max(span, 1e-12) / unit))));
  const text = (unit) => String(Number((at / unit).toFixed(digits(unit))));
  const largest = Math.max(Math.abs(at), span);
  if (largest < 1e-3) return text(1e-6) + " µs";
  if (largest < 1) return text(1e-3) + " ms";
  if (span < 300) return text(1) + " s";
  return span < 3 * 3600 ? text(60) + " min" : text(3600) + " h";
}

export function bytes(text) {
  const binary = atob(text || ""), found = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) found[i] = binary.charCodeAt(i);
  return found;
}
