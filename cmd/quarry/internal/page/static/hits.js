// One hit: title, score bars by leg, passages, metadata, explanation.

import { h, fill, score, value, pieces, marked, num } from './dom.js';
import { chosen } from './state.js';

// bars draws what each leg and the fusion made of a hit. The numbers stand beside
// the bars, so color says nothing alone.
export function bars(hit) {
  const row = (kind, label, leg, title) => h('div', { class: 'bar ' + kind, title },
    h('span', { class: 'bl' }, label),
    h('span', { class: 'track', 'aria-hidden': 'true' }, leg ? h('span', { class: 'fillbar', vars: { w: Math.max(0, Math.min(1, leg.score)) } }) : null),
    h('span', { class: 'bn' }, leg ? score(leg.score) : '–'),
    h('span', { class: 'br' }, leg?.rank ? `#${leg.rank}` : ''));
  const out = [];
  const only = hit.legs.keyword !== hit.legs.vector && hit.retrieval === undefined ? hit.keyword || hit.vector : null;
  if (only && only.score === hit.score) return h('div', { class: 'bars', role: 'group', 'aria-label': 'Scores' }, row(hit.keyword ? 'keyword' : 'vector', hit.kind, only, legTitle(hit.keyword ? 'Keyword' : 'Vector', only, hit.keyword ? 'BM25' : 'raw')));
  if (hit.legs.keyword) out.push(row('keyword', 'keyword', hit.keyword, legTitle('Keyword', hit.keyword, 'BM25')));
  if (hit.legs.vector) out.push(row('vector', 'vector', hit.vector, legTitle('Vector', hit.vector, 'raw')));
  if (hit.retrieval !== undefined) out.push(row('retrieval', hit.retrievalKind || 'before', { score: hit.retrieval }, 'Score before the last step'));
  out.push(row('final', hit.kind, { score: hit.score }, `Final score, kind ${hit.kind}`));
  return h('div', { class: 'bars', role: 'group', 'aria-label': 'Scores' }, out);
}

function legTitle(name, leg, raw) {
  return leg ? `${name} leg: rank ${leg.rank}, ${raw} ${leg.raw}, score ${leg.score}` : `${name} leg: not among its hits`;
}

// snippets are the marked passages, or the start of the text.
export function snippets(hit, max = 3) {
  return hit.snippets.slice(0, max).map((p) => h('p', { class: 'snippet', dir: 'auto' },
    p.field && hit.snippets.length > 1 ? h('span', { class: 'tag' }, p.field) : null,
    p.start > 0 ? '… ' : '', marked(pieces(p.text, p.marks)), p.cut ? ' …' : ''));
}

const HIDDEN = 140;

// meta lists metadata; short scalar values set the filter when clicked.
export function meta(hit, settings, pick) {
  const items = [];
  for (const [name, v] of Object.entries(hit.meta)) {
    const values = Array.isArray(v) ? v : [v];
    for (const x of values.slice(0, 8)) {
      if (x === null || x === '' || typeof x === 'object') continue;
      const text = value(x);
      if (text.length > HIDDEN) continue;
      items.push(h('li', null, h('button', {
        type: 'button', class: 'chip', 'aria-pressed': String(chosen(settings, name, x)), title: `Filter by ${name}`, onclick: () => pick(name, x),
      }, h('span', { class: 'mk' }, name), h('bdi', null, text))));
    }
    if (items.length > 14) break;
  }
  return items.length ? h('ul', { class: 'meta', 'aria-label': 'Metadata' }, items) : null;
}

// tree shows an explanation, its parts inside it.
export function tree(node) {
  return h('ul', { class: 'tree', 'aria-label': 'How the score came about' }, branch(node));
}

function branch(node) {
  const kids = node.details || [];
  return h('li', null,
    h('span', { class: 'tv' }, typeof node.value === 'number' ? Number(node.value.toPrecision(6)) : ''),
    h('span', { class: 'tw', dir: 'auto' }, node.what),
    kids.length ? h('ul', null, kids.map(branch)) : null);
}

// card is a hit in the list. tools: open(hit), explain(hit) → Promise of a tree
// or text, settings, pick(field, value).
export function card(hit, tools) {
  const explanation = h('div', { class: 'explain', hidden: true });
  const button = h('button', { type: 'button', class: 'small', 'aria-expanded': 'false', onclick: () => toggle() }, 'Explain');
  async function toggle() {
    const open = explanation.hidden;
    button.setAttribute('aria-expanded', String(open));
    explanation.hidden = !open;
    if (!open || explanation.childElementCount) return;
    fill(explanation, h('p', { class: 'muted' }, 'asking…'));
    try {
      fill(explanation, tree(await tools.explain(hit)));
    } catch (e) {
      fill(explanation, h('p', { class: 'error', role: 'alert' }, e.message));
    }
  }
  const where = [hit.path, hit.page && (hit.pageEnd ? `pages ${num(hit.page)}–${num(hit.pageEnd)}` : `page ${num(hit.page)}`)].filter(Boolean);
  return h('li', { class: 'hit', tabindex: '-1', dataset: { id: hit.id } },
    h('div', { class: 'head' },
      h('span', { class: 'n', 'aria-hidden': 'true' }, hit.n),
      h('h3', { dir: 'auto' }, h('button', { type: 'button', class: 'title', onclick: () => tools.open(hit) }, hit.title ? marked(pieces(hit.title, hit.titleMarks)) : hit.id)),
      hit.title && hit.title !== hit.id ? h('bdi', { class: 'id' }, hit.id) : null),
    where.length ? h('p', { class: 'where', dir: 'auto' }, where.join(' · ')) : null,
    h('div', { class: 'body' },
      h('div', { class: 'text' }, snippets(hit), meta(hit, tools.settings, tools.pick)),
      h('div', { class: 'side' }, bars(hit),
        h('div', { class: 'acts' }, button))),
    explanation);
}
