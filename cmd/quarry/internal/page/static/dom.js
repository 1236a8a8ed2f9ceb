// Elements, numbers, times and byte offsets. Strings become text nodes, never
// markup: nothing here or elsewhere uses innerHTML.

const SVG = 'http://www.w3.org/2000/svg';

// h makes an element. Properties: class, on… (listeners), dataset and vars
// (objects), everything else an attribute; false, null and undefined leave it
// out. Children are nodes, strings, numbers, arrays of these, or nothing.
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

// s makes an SVG element.
export function s(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'class') el.setAttribute('class', value);
    else if (name === 'dataset') Object.assign(el.dataset, value);
    else if (name === 'vars') for (const [k, v] of Object.entries(value)) el.style.setProperty('--' + k, v);
    else if (name === 'value' && 'value' in el) el.value = value;
    else if (name === 'checked') el.checked = value;
    else el.setAttribute(name, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

// shown is a text without what is no character to be seen (line ends and tabs
// stay) and without overrides of direction, which make a text read otherwise than
// it is.
function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, ' ').replace(/[\u202d\u202e]/g, '');
}

function add(el, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(el, child);
    else if (child === null || child === undefined || child === false || child === '') continue;
    else el.append(child instanceof Node ? child : shown(String(child)));
  }
}

// fill replaces what an element holds.
export function fill(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

export const $ = (id) => document.getElementById(id);

// say tells screen readers.
export function say(text) {
  $('live').textContent = text;
}

const whole = new Intl.NumberFormat('en');

export const num = (n) => (typeof n === 'number' || typeof n === 'bigint' ? whole.format(n) : String(n));

export function count(n, word, words) {
  return num(n) + ' ' + (n === 1 ? word : words || word + 's');
}

export function bytes(n) {
  if (!(n >= 0)) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + ' ' + units[i];
}

// ms is a time in milliseconds, three digits.
export function ms(n) {
  if (!(n >= 0)) return '';
  if (n < 0.0995) return Math.round(n * 1000) + ' µs';
  if (n < 9.995) return n.toFixed(2) + ' ms';
  if (n < 99.95) return n.toFixed(1) + ' ms';
  if (n < 9995) return Math.round(n) + ' ms';
  return (n / 1000).toFixed(1) + ' s';
}

export const score = (n) => (n === undefined || n === null ? '' : n.toFixed(3));

// value is a metadata value on one line.
export function value(v) {
  if (v === null) return 'null';
  if (Array.isArray(v)) return v.map(value).join(', ');
  if (typeof v === 'object') return JSON.stringify(v);
  const time = typeof v === 'string' && /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):00(?:\.0+)?Z$/.exec(v);
  if (time) return time[2] === '00:00' ? time[1] : `${time[1]} ${time[2]} UTC`;
  return String(v);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// pieces cuts text at spans given in bytes of its UTF-8 form: [{text, mark}].
// Spans that overlap, run backwards or leave the text are cut to what is new.
export function pieces(text, spans) {
  const data = encoder.encode(text);
  return pieceBytes(data, spans);
}

// pieceBytes does the same with bytes.
export function pieceBytes(data, spans) {
  const out = [];
  let at = 0;
  const push = (from, to, mark) => {
    if (to > from) out.push({ text: decoder.decode(data.subarray(from, to)), mark });
  };
  for (const span of [...(spans || [])].sort((a, b) => a.start - b.start)) {
    const from = Math.max(at, span.start), to = Math.min(span.end, data.length);
    if (to <= from) continue;
    push(at, from, false);
    push(from, to, true);
    at = to;
  }
  push(at, data.length, false);
  return out;
}

// marked makes nodes of pieces.
export function marked(parts, tag = 'mark', props = null) {
  return parts.map((p) => (p.mark ? h(tag, props, p.text) : p.text));
}

export function debounce(wait, f) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

// wide tells whether there is room for a panel beside the results.
export const wide = () => matchMedia('(min-width: 72rem)').matches;
