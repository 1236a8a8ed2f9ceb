// View: one query, two settings, side by side. What moved shows by its mark, and
// where there is room by a line from place to place.

import { h, fill, num, ms, say, score, pieces, marked } from './dom.js';
import { settingsForm } from './settings.js';
import { searchBox, timing } from './search.js';
import { bars } from './hits.js';
import { slope } from './plots.js';

export const LINE = 76; // height of a row in pixels; style.css has the same

export function mount(root, app) {
  let running = null;
  const box = searchBox(app, run);
  const sides = ['a', 'b'].map((key) => {
    const name = key.toUpperCase();
    const form = settingsForm({ name: ` of ${name}`, get: () => app.state[key], changed: () => run(true), typed: () => box.later() });
    return { key, form, list: h('ol', { class: 'ranks', 'aria-label': `Results of ${name}` }), status: h('div', { class: 'status' }) };
  });
  const lines = h('div', { class: 'lines' });
  const agree = h('div', { class: 'agree', 'aria-live': 'polite' });
  const side = (x) => h('section', { class: 'pane ' + x.key, 'aria-label': `Settings ${x.key.toUpperCase()}` },
    h('h2', null, h('span', { class: 'badge' }, x.key.toUpperCase())), x.form.el, x.status, x.list);
  const frame = h('div', { class: 'view compare' }, h('div', { class: 'ask' }, box.el), agree,
    h('div', { class: 'pair' }, side(sides[0]), lines, side(sides[1])));
  fill(root, frame);

  async function run(push) {
    app.save(push);
    const info = await app.info();
    // Two equal columns tell nothing: B starts with another mode.
    if (info && !app.state.b.mode && !app.state.a.mode) app.state.b.mode = 'keyword';
    sides.forEach((x) => x.form.draw(info));
    if (!info) return;
    if (!app.state.q.trim()) {
      fill(agree, h('p', { class: 'empty' }, 'Type a query: both settings answer it.'));
      fill(lines);
      sides.forEach((x) => { fill(x.list); fill(x.status); });
      return;
    }
    running?.abort();
    const me = (running = new AbortController());
    frame.setAttribute('aria-busy', 'true');
    const results = await Promise.all(sides.map(async (x) => {
      try {
        const r = await app.api.search(app.state.target, info, app.state.q, app.state[x.key], { signal: me.signal, facets: false });
        x.form.fail('');
        return r;
      } catch (e) {
        if (me.signal.aborted) return null;
        x.form.fail(e.field === 'filter' ? e.message : '');
        fill(x.status, e.field === 'filter' ? null : h('p', { class: 'error', role: 'alert' }, e.message));
        fill(x.list);
        return null;
      }
    }));
    if (me.signal.aborted) return;
    frame.removeAttribute('aria-busy');
    show(results);
  }

  function show(results) {
    const places = results.map((r) => new Map((r?.hits || []).map((hit, i) => [hit.id, i])));
    results.forEach((r, i) => r && draw(sides[i], r, places[1 - i], !!results[1 - i]));
    if (!results[0] || !results[1]) {
      fill(agree);
      fill(lines);
      return;
    }
    const pairs = [...places[0]].filter(([id]) => places[1].has(id)).map(([id, at]) => [at, places[1].get(id)]);
    const most = Math.max(places[0].size, places[1].size), least = Math.min(places[0].size, places[1].size);
    fill(lines, slope(pairs, most, LINE));
    const firsts = results[0].hits[0]?.id === results[1].hits[0]?.id && least > 0;
    const text = `${num(pairs.length)} of ${num(most)} hits in both · ${firsts ? 'the same first hit' : 'different first hits'} · ${num(pairs.filter(([a, b]) => a === b).length)} at the same place`;
    fill(agree, h('div', { class: 'meter', 'aria-hidden': 'true' }, h('span', { class: 'fillbar', vars: { w: most ? pairs.length / most : 0 } })), h('p', null, text));
    say(text);
  }

  function draw(x, r, other, compared) {
    fill(x.status, h('p', { class: 'line' }, h('span', null, h('strong', null, num(r.hits.length)), ' hits'), h('span', { class: 'muted' }, ms(r.ms))), timing(r), [...r.notes, ...r.flags].map((n) => h('p', { class: 'note' }, n)));
    fill(x.list, r.hits.map((hit, i) => h('li', { class: 'rank', tabindex: '-1', dataset: { id: hit.id } },
      h('span', { class: 'n', 'aria-hidden': 'true' }, i + 1), compared ? move(i, other.get(hit.id), x.key) : null,
      h('div', { class: 'rt' }, h('button', { type: 'button', class: 'title', dir: 'auto', onclick: () => app.open(hit, r) }, hit.title ? marked(pieces(hit.title, hit.titleMarks)) : hit.id),
        h('p', { class: 'where', dir: 'auto' }, hit.path || hit.snippets[0]?.text || hit.id)),
      h('div', { class: 'mini', title: `score ${score(hit.score)}` }, bars(hit)))));
  }

  // move tells how a hit stands here against the other side.
  function move(here, there, key) {
    const other = key === 'a' ? 'B' : 'A';
    if (there === undefined) return h('span', { class: 'move only', title: `not in ${other}` }, 'only');
    if (there === here) return h('span', { class: 'move', title: `same place in ${other}` }, '=');
    const by = there - here;
    return h('span', { class: 'move ' + (by > 0 ? 'up' : 'down'), title: `place ${there + 1} in ${other}` }, (by > 0 ? '▲' : '▼') + Math.abs(by));
  }

  return {
    focus: () => { box.input.focus(); box.input.select(); },
    async update() {
      box.input.value = app.state.q;
      await run(false);
    },
    key(e) {
      const items = [...root.querySelectorAll('.rank')];
      const at = items.indexOf(document.activeElement?.closest?.('.rank'));
      if (e.key !== 'j' && e.key !== 'k') {
        if (e.key !== 'Enter' || at < 0 || document.activeElement !== items[at]) return false;
        items[at].querySelector('.title').click();
        return true;
      }
      const next = items[Math.max(0, Math.min(items.length - 1, at + (e.key === 'j' ? 1 : -1)))];
      next?.focus();
      next?.scrollIntoView({ block: 'nearest' });
      return true;
    },
  };
}
