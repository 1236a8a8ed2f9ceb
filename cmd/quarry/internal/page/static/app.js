// Start, routing, keyboard, theme, dialogs.

import { h, fill, $, say } from './dom.js';
import { parse, format } from './state.js';
import * as api from './api.js';
import { viewer } from './viewer.js';
import * as search from './search.js';
import * as compare from './compare.js';
import * as stats from './stats.js';
import * as importer from './importer.js';

const VIEWS = { search, compare, stats, import: importer };
const TITLES = { search: 'Search', compare: 'Compare', stats: 'Statistics', import: 'Import' };

const main = $('main'), picker = $('target');
let view = null, shown = '';
const infos = new Map();

const app = {
  api,
  state: parse(location.search),
  targets: Object.assign([], { problems: [] }),

  // save writes the state into the URL; push makes it a step to go back to.
  save(push) {
    const url = format(app.state);
    if (url === (location.search || '?')) return;
    history[push ? 'pushState' : 'replaceState'](null, '', url);
    title();
  },

  // info describes the target, once.
  async info() {
    const t = app.state.target;
    if (!t) return null;
    if (!infos.has(t)) infos.set(t, api.describe(t).catch((e) => { infos.delete(t); throw e; }));
    return infos.get(t);
  },

  forget() { infos.clear(); },

  open(hit) {
    app.state.doc = hit.document || hit.id;
    app.state.chunk = hit.chunk || '';
    app.save(true);
    return panel.open(app.state.doc, app.state.chunk, hit);
  },

  // remember keeps latencies of this tab for the statistics.
  remember(r) {
    try {
      const all = JSON.parse(sessionStorage.getItem('latencies') || '[]');
      all.push(Number(r.ms.toFixed(4)));
      sessionStorage.setItem('latencies', JSON.stringify(all.slice(-2000)));
    } catch {
      return; // storage is off: the plot stays empty
    }
  },

  async copy(text, button) {
    const old = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Copy the address bar';
    }
    say(button.textContent);
    setTimeout(() => { button.textContent = old; }, 1600);
  },

  async reload() {
    infos.clear();
    await loadTargets();
  },

  go(patch) {
    Object.assign(app.state, patch);
    app.save(true);
    return route();
  },
};

const panel = viewer(app);

function title() {
  const q = app.state.view === 'search' || app.state.view === 'compare' ? app.state.q : '';
  document.title = (q ? q + ' – ' : '') + TITLES[app.state.view] + ' – quarry';
}

async function route() {
  const { view: name } = app.state;
  for (const a of $('views').children) {
    const on = a.dataset.view === name;
    if (on) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
    a.href = format({ ...app.state, view: a.dataset.view, doc: '', chunk: '', why: '' });
  }
  picker.value = app.state.target;
  title();
  if (shown !== name) {
    view?.leave?.();
    view = VIEWS[name].mount(main, app);
    main.prepend(h('h1', { class: 'vh' }, TITLES[name]));
    shown = name;
  }
  try {
    await view.update();
  } catch (e) {
    fill(main, h('p', { class: 'error', role: 'alert' }, e.message));
    shown = '';
  }
  if (app.state.doc && !panel.isOpen) panel.open(app.state.doc, app.state.chunk, null);
}

async function loadTargets() {
  try {
    app.targets = await api.targets();
  } catch (e) {
    picker.disabled = true;
    fill(picker, h('option', null, 'not available'));
    fill(main, h('p', { class: 'error', role: 'alert' }, e.message), e.status === 401 || e.status === 403 ? h('button', { type: 'button', onclick: askKey }, 'Enter an API key') : null);
    shown = '';
    $('key-button').hidden = !(e.status === 401 || e.status === 403);
    if (e.status === 401) askKey();
    throw e;
  }
  const group = (kind, label) => {
    const list = app.targets.filter((t) => t.kind === kind);
    return list.length ? h('optgroup', { label }, list.map((t) => h('option', { value: t.key }, t.name))) : null;
  };
  fill(picker, group('collection', 'Collections'), group('base', 'Knowledge bases'), group('space', 'Spaces'), app.targets.problems.map((p) => h('option', { disabled: true }, p)));
  if (!picker.childElementCount) fill(picker, h('option', { value: '' }, 'nothing yet'));
  picker.disabled = !app.targets.length;
  if (!app.targets.some((t) => t.key === app.state.target)) app.state.target = app.targets[0]?.key || '';
  picker.value = app.state.target;
}

picker.addEventListener('change', () => {
  panel.close();
  for (const x of [app.state.a, app.state.b]) x.is = [];
  app.go({ target: picker.value });
});

document.addEventListener('click', (e) => {
  const a = e.target.closest('a[data-view], a[data-home]');
  if (!a || e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
  e.preventDefault();
  panel.close();
  if ('home' in a.dataset) app.go({ ...parse(''), target: app.state.target });
  else app.go({ view: a.dataset.view });
  main.focus({ preventScroll: true });
});

window.addEventListener('popstate', () => {
  app.state = parse(location.search);
  if (!app.targets.some((t) => t.key === app.state.target)) app.state.target = app.targets[0]?.key || '';
  if (!app.state.doc) panel.close();
  route();
});

// ---- keyboard

function typing(el) {
  return el && (el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName)) && !/^(radio|checkbox|button|file)$/.test(el.type);
}

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
  const help = $('help');
  if (e.key === 'Escape') {
    if (help.open || $('key').open) return;
    if (panel.isOpen) panel.close();
    else if (typing(document.activeElement)) document.activeElement.blur();
    else return;
    e.preventDefault();
    return;
  }
  if (typing(e.target) || help.open || $('key').open) return;
  if (e.key === '/') view?.focus?.();
  else if (e.key === '?') showHelp();
  else if (e.key === 't') nextTheme();
  else if (!view?.key?.(e)) return;
  e.preventDefault();
});

// ---- theme

const THEMES = ['auto', 'light', 'dark'];

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $('theme').setAttribute('aria-label', `Theme: ${name}`);
}

function nextTheme() {
  const now = THEMES.indexOf(document.documentElement.dataset.theme);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  // The first press must change what is seen.
  const next = now === 0 ? (dark ? 'light' : 'dark') : now === (dark ? 1 : 2) ? (dark ? 'dark' : 'light') : 'auto';
  setTheme(next);
  say(`Theme: ${next}`);
  try {
    localStorage.setItem('theme', next);
  } catch {
    return; // the choice lasts for this visit
  }
}

try {
  setTheme(THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto');
} catch {
  setTheme('auto');
}
$('theme').addEventListener('click', nextTheme);

// ---- dialogs

function closer(dialog) {
  return h('form', { method: 'dialog' }, h('button', { class: 'icon close', 'aria-label': 'Close', onclick: (e) => { e.preventDefault(); dialog.close(); } }, '×'));
}

const KEYS = [['/', 'to the query'], ['j  k', 'next and previous hit'], ['Enter', 'open the hit'], ['e', 'explain the hit'], ['Esc', 'close, or leave a field'], ['t', 'light or dark'], ['?', 'this help']];
const FILTERS = [
  ['lang = "de"', 'equal; != is the complement'], ['year >= 2020 and year < 2024', 'ranges; also between 2020 and 2023'],
  ['created >= 2024-01-01', 'times'], ['tags contains any ["CLI", "API"]', 'lists; also contains all'],
  ['platform in [linux, osx]', 'any of these'], ['path prefix "docs/"', 'starts with'],
  ['exists author and not draft is null', 'there, or null'], ['(a = 1 or b = 2) and not c = 3', 'and, or, not, parentheses'],
];

function showHelp() {
  const d = $('help');
  fill(d, h('header', null, h('h2', { id: 'help-title' }, 'Help'), closer(d)),
    h('div', { class: 'pane' },
      h('h3', null, 'Keyboard'), h('dl', { class: 'keys' }, KEYS.map(([k, what]) => [h('dt', null, k.split('  ').map((x) => h('kbd', null, x))), h('dd', null, what)])),
      h('h3', null, 'Filter language'), h('dl', { class: 'keys' }, FILTERS.map(([k, what]) => [h('dt', null, h('code', null, k)), h('dd', null, what)])),
      h('h3', null, 'Scores'), h('p', null, 'Every score lies between 0 and 1 and does not depend on the other hits. Keyword: how much of the query’s weight a document holds. Vector: nearness in meaning. The last bar orders the hits.'),
      h('p', { class: 'muted' }, 'What you see is in the address: copy it to share a search. Nothing on this page leaves this machine.')));
  d.showModal();
}
$('help-button').addEventListener('click', showHelp);

function askKey() {
  const d = $('key');
  if (d.open) return;
  const input = h('input', { type: 'password', autocomplete: 'off', 'aria-label': 'API key' });
  fill(d, h('header', null, h('h2', { id: 'key-title' }, 'API key'), closer(d)),
    h('form', { class: 'pane', onsubmit: async (e) => {
      e.preventDefault();
      api.setKey(input.value.trim());
      d.close();
      await start();
    } }, h('p', null, 'This server wants a key. It stays in this tab and is forgotten with it.'),
    h('div', { class: 'row' }, input, h('button', { type: 'submit', class: 'primary' }, 'Use'))));
  d.showModal();
  input.focus();
}
$('key-button').addEventListener('click', askKey);

// ---- start

async function start() {
  try {
    await loadTargets();
  } catch {
    return; // shown already
  }
  $('key-button').hidden = !api.hasKey();
  app.save(false);
  await route();
  if (app.state.view === 'search' && !app.state.doc && matchMedia('(hover: hover)').matches) view?.focus?.();
  performance.mark('quarry-usable');
  document.documentElement.dataset.ready = '';
}

start();
