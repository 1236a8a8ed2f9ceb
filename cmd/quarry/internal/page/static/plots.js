// Bars and histograms as SVG, drawn from numbers, with a table for those who do
// not see them.

import { h, s, num } from './dom.js';

// funnel shows what was left after each step: [{name, n, note}].
export function funnel(steps) {
  const most = Math.max(1, ...steps.map((x) => x.n));
  return h('ol', { class: 'funnel', 'aria-label': 'What was left after each step' }, steps.map((x) => h('li', { class: x.lost ? 'lost' : null },
    h('span', { class: 'fl' }, x.name), h('span', { class: 'track', 'aria-hidden': 'true' }, h('span', { class: 'fillbar', vars: { w: x.n / most } })),
    h('span', { class: 'fn' }, num(x.n)), x.note ? h('span', { class: 'fx' }, x.note) : null)));
}

// figure puts a plot under its title, with its numbers as a table.
export function figure(title, plot, head, rows, note) {
  return h('figure', { class: 'plot' },
    h('figcaption', null, h('h3', null, title), note ? h('p', { class: 'muted' }, note) : null),
    plot,
    h('details', null, h('summary', null, 'Numbers'), h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, head.map((c) => h('th', { scope: 'col' }, c)))),
      h('tbody', null, rows.map((r) => h('tr', null, r.map((c, i) => (i ? h('td', null, c) : h('th', { scope: 'row', dir: 'auto' }, c))))))))));
}

// responsive draws at the width there is, and again when that changes.
function responsive(draw) {
  const box = h('div', { class: 'chartbox' });
  let width = 0;
  new ResizeObserver(([entry]) => {
    const w = Math.floor(entry.contentRect.width);
    if (w < 1 || w === width) return;
    width = w;
    box.replaceChildren(draw(w));
  }).observe(box);
  return box;
}

const svg = (width, height, label, ...children) => s('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, children);

// hbars draws a bar a row: [{label, parts: [{n, kind}], text}].
export function hbars(rows, label) {
  const most = Math.max(1e-9, ...rows.map((r) => r.parts.reduce((a, p) => a + p.n, 0)));
  return responsive((width) => {
    const line = 28, left = Math.min(200, width * 0.34), right = Math.min(130, width * 0.28), room = width - left - right;
    const letters = Math.floor(left / 7.4);
    return svg(width, rows.length * line + 4, label, rows.map((r, i) => {
      let x = left;
      const y = i * line + 4, clip = r.label.length > letters ? r.label.slice(0, letters / 2) + '…' + r.label.slice(1 - letters / 2) : r.label;
      return s('g', null, s('title', null, `${r.label}: ${r.text}`),
        s('text', { class: 'cl', x: left - 10, y: y + 15, 'text-anchor': 'end' }, clip),
        s('rect', { class: 'ct', x: left, y: y + 2, width: room, height: 17, rx: 3 }),
        r.parts.map((p) => {
          const w = p.n > 0 ? Math.max((p.n / most) * room, 1.5) : 0;
          const rect = s('rect', { class: 'c-' + p.kind, x, y: y + 2, width: w, height: 17, rx: Math.min(3, w / 2) });
          x += w;
          return rect;
        }),
        s('text', { class: 'cv', x: width - right + 8, y: y + 15 }, r.text));
    }));
  });
}

// histogram draws counts by bucket: [{label, n}].
export function histogram(buckets, label) {
  const most = Math.max(1, ...buckets.map((b) => b.n));
  return responsive((width) => {
    const height = 220, bottom = 30, left = 40, top = 12, w = (width - left - 4) / Math.max(1, buckets.length);
    const y = (n) => top + (1 - n / most) * (height - top - bottom);
    const every = Math.ceil(52 / w);
    return svg(width, height, label,
      ticks(most).map((t) => [s('line', { class: 'gridline', x1: left, x2: width, y1: y(t), y2: y(t) }), s('text', { class: 'cv', x: left - 6, y: y(t) + 4, 'text-anchor': 'end' }, num(t))]),
      buckets.map((b, i) => s('g', null, s('title', null, `${b.label}: ${num(b.n)}`),
        s('rect', { class: 'c-final', x: left + i * w + 1, y: y(b.n), width: Math.max(1, w - 2), height: height - bottom - y(b.n), rx: 2 }),
        i % every === 0 ? s('text', { class: 'cv', x: left + (i + 0.5) * w, y: height - bottom + 17, 'text-anchor': 'middle' }, b.label) : null)),
      s('line', { class: 'axis', x1: left, x2: width, y1: height - bottom, y2: height - bottom }));
  });
}

// inUse are the first and the last bucket worth drawing: those that hold something,
// and as many beside them as make a picture.
export function inUse(counts) {
  let from = counts.findIndex((n) => n > 0), to = counts.findLastIndex((n) => n > 0);
  while (to - from < 7 && (from > 0 || to < counts.length - 1)) [from, to] = [Math.max(0, from - 1), Math.min(counts.length - 1, to + 1)];
  return [from, to];
}

function ticks(most) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 1e6].find((x) => most / x <= 4) || most;
  const out = [];
  for (let t = step; t <= most; t += step) out.push(t);
  return out;
}

// slope joins the places of two rankings: pairs [[a, b]], places from 0.
export function slope(pairs, rows, line) {
  const width = 100, height = Math.max(1, rows) * line;
  return s('svg', { class: 'slope', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true', preserveAspectRatio: 'none' },
    pairs.map(([a, b]) => {
      const y1 = (a + 0.5) * line, y2 = (b + 0.5) * line;
      return s('path', { class: a === b ? 'same' : a > b ? 'up' : 'down', d: `M0 ${y1}C50 ${y1} 50 ${y2} 100 ${y2}` });
    }));
}
