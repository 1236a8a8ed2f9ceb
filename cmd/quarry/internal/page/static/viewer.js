// A document or chunk in a panel: beside the results where there is room, over
// them where there is not. The cited span is marked in the document's own text,
// on its page.

import { h, fill, $, num, value, pieces, marked, wide, count } from './dom.js';

export function viewer(app) {
  const box = $('viewer');
  let opener = null, asked = 0;

  box.addEventListener('cancel', (e) => { e.preventDefault(); close(); });

  function close() {
    if (!box.open) return;
    asked++;
    box.close();
    document.body.classList.remove('viewing');
    app.state.doc = app.state.chunk = '';
    app.save(true);
    (opener?.isConnected ? opener : $('main')).focus({ preventScroll: true });
  }

  function show(title, ...children) {
    fill(box,
      h('header', null, h('h2', { id: 'viewer-title', dir: 'auto' }, title),
        h('button', { type: 'button', class: 'icon close', 'aria-label': 'Close (Esc)', title: 'Close (Esc)', onclick: close }, '×')),
      h('div', { class: 'pane', tabindex: '0', 'aria-label': 'Document' }, children));
    if (!box.open) {
      opener = document.activeElement;
      document.body.classList.add('viewing');
      if (wide()) box.show();
      else box.showModal();
    }
  }

  // open loads a document; hit tells what was cited, when there was a search.
  async function open(id, chunk, hit) {
    const me = ++asked;
    const info = await app.info();
    show(hit?.title || id, h('p', { class: 'muted' }, 'loading…'));
    try {
      const d = await app.api.document(app.state.target, info, id, { chunk, hit });
      if (me !== asked) return;
      draw(d);
    } catch (e) {
      if (me === asked) show(id, h('p', { class: 'error', role: 'alert' }, e.message));
    }
  }

  function draw(d) {
    const here = d.citation ? citation(d.citation) : null;
    show(d.title || d.id, d.title && d.title !== d.id ? h('bdi', { class: 'id' }, d.id) : null, here,
      d.parts.map((p) => part(p)),
      d.vectors.map((v) => h('section', null, h('h3', null, v.name, h('small', { class: 'muted' }, ` vector of ${num(v.values.length)}`)), stripes(v.values))),
      Object.keys(d.meta).length ? h('section', null, h('h3', null, 'Metadata'), table(d.meta)) : null,
      d.facts.length ? h('section', null, h('h3', null, 'Record'), h('dl', { class: 'facts' }, d.facts.map(([k, v]) => [h('dt', null, k), h('dd', { dir: 'auto' }, v)]))) : null,
      h('div', { class: 'acts' },
        h('button', { type: 'button', class: 'small', onclick: (e) => app.copy(location.href, e.target) }, 'Copy link'),
        d.download ? h('button', { type: 'button', class: 'small', onclick: (e) => save(d, e.target) }, 'Save the source file') : null));
    const cited = box.querySelector('.cited, .part mark');
    cited?.scrollIntoView({ block: 'center' });
    box.querySelector('.pane').focus({ preventScroll: true });
  }

  async function save(d, button) {
    button.disabled = true;
    try {
      const url = URL.createObjectURL(new Blob([await d.download()], { type: 'application/octet-stream' }));
      h('a', { href: url, download: d.id.split('/').at(-1) }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (e) {
      button.after(h('p', { class: 'error', role: 'alert' }, e.message));
    }
    button.disabled = false;
  }

  return { open, close, get isOpen() { return box.open; } };
}

// part is a text of the document: {name, text, marks, cited, pages}. cited is a
// span in bytes, pages are texts with numbers.
function part(p) {
  const body = p.pages
    ? p.pages.map((page) => h('div', { class: 'page' }, page.number ? h('span', { class: 'pageno' }, `page ${num(page.number)}`) : null, text(page)))
    : text(p);
  return h('section', { class: 'part' }, p.name ? h('h3', null, p.name, p.note ? h('small', { class: 'muted' }, ' ' + p.note) : null) : null, body);
}

function text(p) {
  const nodes = p.cited ? marked(pieces(p.text, [p.cited]), 'mark', { class: 'cited' }) : marked(pieces(p.text, p.marks));
  return h('div', { class: p.code ? 'prose code' : 'prose', dir: 'auto' }, nodes);
}

function citation(c) {
  return h('dl', { class: 'citation', 'aria-label': 'Citation' }, c.map(([k, v]) => [h('dt', null, k), h('dd', { dir: 'auto' }, v)]));
}

function table(meta) {
  return h('table', { class: 'metatable' }, h('tbody', null, Object.entries(meta).map(([k, v]) => h('tr', null, h('th', { scope: 'row', dir: 'auto' }, k), h('td', { dir: 'auto' }, value(v))))));
}

// stripes shows a vector's components as bars around zero, in at most 128 groups.
function stripes(values) {
  const groups = Math.min(128, values.length), out = [];
  const most = Math.max(1e-9, ...values.map(Math.abs));
  for (let i = 0; i < groups; i++) {
    const part = values.slice(Math.floor((i * values.length) / groups), Math.floor(((i + 1) * values.length) / groups));
    const v = part.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0) / most;
    out.push(h('i', { class: v < 0 ? 'neg' : 'pos', vars: { w: Math.abs(v).toFixed(3) } }));
  }
  return h('div', { class: 'stripes', role: 'img', 'aria-label': `${count(values.length, 'component')}, largest ${most.toPrecision(3)}` }, out);
}
