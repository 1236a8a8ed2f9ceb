// View: search, with facets, timing by stage, and why a document is missing.

import { h, s, fill, num, count, ms, say, debounce, value } from './dom.js';
import { chosen, toggle } from './state.js';
import { settingsForm } from './settings.js';
import { card, tree } from './hits.js';
import { funnel } from './plots.js';

const STAGES = ['read', 'decode', 'embed', 'assemble', 'encode', 'search', 'other'];

// searchBox is the query field, shared with the comparison.
export function searchBox(app, run) {
  const input = h('input', {
    id: 'q', type: 'search', enterkeyhint: 'search', autocomplete: 'off', spellcheck: 'false', dir: 'auto', 'aria-label': 'Query', 'aria-keyshortcuts': '/',
    oninput: () => { app.state.q = input.value; later(); },
  });
  const later = debounce(220, () => run(false));
  const el = h('form', {
    class: 'box', role: 'search', onsubmit: (e) => { e.preventDefault(); later.cancel(); run(true); },
  }, s('svg', { class: 'glass', viewBox: '0 0 20 20', 'aria-hidden': 'true', focusable: 'false' }, s('circle', { cx: 8.5, cy: 8.5, r: 5.5 }), s('path', { d: 'm13 13 5 5' })), input, h('button', { type: 'submit', class: 'primary' }, 'Search'));
  return { el, input, later };
}

// timing draws what a search spent where.
export function timing(result) {
  const stages = result.timing.filter((t) => t.ms > 0);
  const sum = stages.reduce((a, t) => a + t.ms, 0);
  return h('div', { class: 'timing' },
    h('div', { class: 'stack', role: 'img', 'aria-label': 'Time by stage: ' + stages.map((t) => `${t.name} ${ms(t.ms)}`).join(', ') },
      stages.map((t) => h('span', { class: 'seg st' + stageIndex(t.name), vars: { w: t.ms / (sum || 1) }, title: `${t.name}: ${ms(t.ms)}` }))),
    h('ul', { class: 'legend' }, stages.map((t) => h('li', { title: t.title || null }, h('i', { class: 'dot st' + stageIndex(t.name), 'aria-hidden': 'true' }), t.name, ' ', h('b', null, ms(t.ms))))));
}

function stageIndex(name) {
  const i = STAGES.indexOf(name === 'retrieve' ? 'search' : name);
  return i < 0 ? STAGES.length - 1 : i;
}

export function mount(root, app) {
  let result = null, running = null, current = -1, info = null;
  const box = searchBox(app, run);
  const form = settingsForm({ name: '', get: () => app.state.a, changed: () => run(true), typed: () => box.later() });
  const status = h('div', { class: 'status' });
  const facets = h('aside', { class: 'facets', 'aria-label': 'Facets' });
  const list = h('ol', { class: 'hits', 'aria-label': 'Results' });
  const more = h('div', { class: 'more' });
  const why = whyPanel(app, () => result);
  const frame = h('div', { class: 'view search' },
    h('div', { class: 'ask' }, box.el, form.el),
    h('div', { class: 'cols' }, facets, h('section', { class: 'found', 'aria-label': 'Results' }, status, list, more, why.el)));
  fill(root, frame);

  const tools = {
    get settings() { return app.state.a; },
    open: (hit) => app.open(hit, result),
    explain: (hit) => app.api.explain(app.state.target, info, app.state.q, app.state.a, hit),
    pick: (field, v) => { toggle(app.state.a, field, v); run(true); },
  };

  async function run(push) {
    app.save(push);
    info = await app.info();
    form.draw(info);
    if (!info) return blank();
    const empty = !app.state.q.trim() && !app.state.a.f.trim() && !app.state.a.is.length;
    if (empty && info.kind !== 'collection' || info.kind === 'space' && !app.state.q.trim()) return blank();
    running?.abort();
    const me = (running = new AbortController());
    frame.setAttribute('aria-busy', 'true');
    try {
      const r = await app.api.search(app.state.target, info, app.state.q, app.state.a, { signal: me.signal });
      if (me.signal.aborted) return;
      form.fail('');
      show(r, empty);
      app.remember(r);
    } catch (e) {
      if (me.signal.aborted) return;
      failed(e);
    } finally {
      if (running === me) frame.removeAttribute('aria-busy');
    }
  }

  function failed(e) {
    const filter = e.field === 'filter';
    form.fail(filter ? e.message : '');
    if (filter && result) { // it is being typed: what was found before stays to be seen
      frame.classList.add('stale');
      return;
    }
    result = null;
    fill(list);
    fill(more);
    why.draw(null);
    fill(status, filter ? null : h('p', { class: 'error', role: 'alert' }, e.message, e.code ? h('code', null, e.code) : null));
  }

  function blank() {
    result = null;
    fill(list);
    fill(more);
    fill(facets);
    fill(status, info ? h('p', { class: 'empty' }, `Ask ${info.name}: ${info.about || count(info.documents, 'document')}${info.chunks ? ', ' + count(info.chunks, 'chunk') : ''}.`) : h('p', { class: 'empty' }, 'Nothing to search yet. ', h('a', { href: '?view=import', dataset: { view: 'import' } }, 'Import files'), '.'));
    why.draw(null);
  }

  function show(r, browsing) {
    result = r;
    current = -1;
    frame.classList.remove('stale');
    const total = r.total > 0 ? ` of ${num(r.total)}` : '';
    fill(status,
      h('div', { class: 'line' },
        h('p', null, h('strong', null, r.hits.length ? num(r.hits.length) : 'No'), ` ${r.unit || (r.hits.length === 1 ? 'hit' : 'hits')}${total}`, browsing ? ' · all documents, by id' : '', h('span', { class: 'muted' }, ` · ${ms(r.ms)}`), r.roundtrip ? h('span', { class: 'muted trip' }, ` (${ms(r.roundtrip)} with the round trip)`) : null, r.about ? h('span', { class: 'muted' }, r.about) : null),
        h('button', { type: 'button', class: 'small', onclick: (e) => app.copy(location.href, e.target) }, 'Copy link')),
      timing(r),
      r.meant ? h('p', { class: 'note' }, 'Did you mean ', h('button', { type: 'button', class: 'linklike', onclick: () => { app.state.q = box.input.value = r.meant; run(true); } }, h('bdi', null, r.meant)), '?') : null,
      [...r.notes, ...r.flags].map((n) => h('p', { class: 'note' }, n)));
    drawFacets(r);
    fill(list, r.hits.map((hit) => card(hit, tools)));
    drawMore(r);
    why.draw(info.kind === 'space' ? null : r);
    say(`${count(r.hits.length, 'hit')}${total} in ${ms(r.ms)}`);
    if (!r.hits.length) list.append(h('li', { class: 'empty' }, 'Nothing matches. Fewer words, another mode or a wider filter may help.'));
  }

  function drawMore(r) {
    fill(more, r.more ? h('button', {
      type: 'button', onclick: async (e) => {
        e.target.disabled = true;
        try {
          const next = await r.more();
          const at = list.childElementCount;
          r.hits.push(...next.hits);
          r.more = next.more;
          list.append(...next.hits.map((hit) => card(hit, tools)));
          drawMore(r);
          select(at);
        } catch (err) {
          fill(more, h('p', { class: 'error', role: 'alert' }, err.message));
        }
      },
    }, 'More') : null);
  }

  function drawFacets(r) {
    const groups = Object.entries(r.facets).filter(([, values]) => values.length);
    const open = wideFacets.matches;
    fill(facets, groups.length ? h('details', { open }, h('summary', null, h('h2', null, 'Facets'), h('small', { class: 'muted' }, r.facetScope)),
      groups.map(([field, values]) => {
        const most = Math.max(...values.map((v) => v.count));
        return h('fieldset', null, h('legend', { dir: 'auto' }, field), values.map((v) => {
          const on = chosen(app.state.a, field, v.value);
          return h('button', {
            type: 'button', class: 'facet', 'aria-pressed': String(on), vars: { w: v.count / most }, onclick: () => { toggle(app.state.a, field, v.value); run(true); },
          }, h('bdi', null, value(v.value) || '(empty)'), h('span', { class: 'fc' }, num(v.count)));
        }));
      })) : null);
  }
  const wideFacets = matchMedia('(min-width: 56rem)');

  function select(i) {
    const items = list.querySelectorAll('.hit');
    if (!items.length) return;
    current = Math.max(0, Math.min(items.length - 1, i));
    items.forEach((el, j) => el.classList.toggle('current', j === current));
    items[current].focus({ preventScroll: true });
    items[current].scrollIntoView({ block: 'nearest' });
  }

  return {
    focus: () => { box.input.focus(); box.input.select(); },
    async update() {
      box.input.value = app.state.q;
      why.sync();
      await run(false);
    },
    key(e) {
      const at = document.activeElement?.closest?.('.hit');
      if (at) current = [...list.querySelectorAll('.hit')].indexOf(at);
      if (e.key === 'j') select(current + 1);
      else if (e.key === 'k') select(current - 1);
      else if (e.key === 'Enter' && at === document.activeElement && result?.hits[current]) app.open(result.hits[current], result);
      else if (e.key === 'e' && at) at.querySelector('.acts button').click();
      else return false;
      return true;
    },
  };
}

// whyPanel asks where a document was lost.
function whyPanel(app, result) {
  const input = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', dir: 'auto', 'aria-label': 'Id of the document', placeholder: 'id of the document', oninput: () => { app.state.why = input.value.trim(); } });
  const out = h('div', { class: 'whyout', 'aria-live': 'polite' });
  const details = h('details', { class: 'why' }, h('summary', null, 'Why is this document missing?'),
    h('form', { class: 'row', onsubmit: (e) => { e.preventDefault(); ask(true); } }, input, h('button', { type: 'submit' }, 'Explain')), out);
  async function ask(push) {
    const id = input.value.trim();
    app.state.why = id;
    app.save(push);
    if (!id) return fill(out);
    fill(out, h('p', { class: 'muted' }, 'asking…'));
    try {
      const info = await app.info();
      const w = await app.api.why(app.state.target, info, app.state.q, app.state.a, id);
      fill(out, h('p', { class: w.found ? 'verdict good' : 'verdict', dir: 'auto' }, w.text),
        w.steps.length ? funnel(w.steps) : null, w.tree ? tree(w.tree) : null);
    } catch (e) {
      fill(out, h('p', { class: 'error', role: 'alert' }, e.message));
    }
  }
  return {
    el: details,
    draw(r) {
      details.hidden = !r;
      if (r && details.open && input.value) ask(false);
    },
    sync() {
      if (app.state.why && input.value !== app.state.why) {
        input.value = app.state.why;
        details.open = true;
      }
    },
  };
}

