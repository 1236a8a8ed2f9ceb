// The form of one settings object: mode, filter with its chips, options.

import { h, fill } from './dom.js';
import { word } from './state.js';

const MODES = [['keyword', 'Keyword'], ['vector', 'Vector'], ['hybrid', 'Hybrid']];
const SPACE_MODES = [['fast', 'Fast'], ['deep', 'Deep'], ['research', 'Research']];

let forms = 0;

// modesOf tells the modes a target can serve, the best one last.
export function modesOf(info) {
  if (!info) return [];
  if (info.kind === 'space') return SPACE_MODES.map(([m]) => m);
  const out = info.texts.length || info.kind === 'base' ? ['keyword'] : [];
  if (info.embeds) out.push('vector');
  if (out.length === 2) out.push('hybrid');
  return out;
}

// modeOf is the mode in force.
export function modeOf(settings, info) {
  const modes = modesOf(info);
  return modes.includes(settings.mode) ? settings.mode : info?.mode || modes.at(-1) || 'keyword';
}

// settingsForm makes the controls of a settings object. get returns it, changed
// is called after every change, and typed after every key in the filter box.
export function settingsForm({ name, get, changed, typed }) {
  const id = `s${++forms}`;
  const modes = h('div', { class: 'modes', role: 'radiogroup', 'aria-label': `Mode${name}` });
  const filter = h('input', {
    id: `${id}f`, class: 'filter', type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', dir: 'auto',
    placeholder: 'lang = "de" and year >= 2020', 'aria-label': `Filter${name}`, 'aria-describedby': `${id}e`,
    oninput: () => { get().f = filter.value; typed(); },
  });
  const error = h('p', { class: 'error', id: `${id}e`, role: 'alert' });
  const fields = h('div', { class: 'fields' });
  const chips = h('ul', { class: 'chips', 'aria-label': `Chosen facets${name}` });
  const options = h('details', { class: 'options' }, h('summary', null, 'Options'), h('div', { class: 'grid' }));
  const filterbox = h('div', { class: 'filterbox' }, h('label', { class: 'tag', for: `${id}f` }, 'Filter'), filter);
  const el = h('div', { class: 'settings' },
    modes,
    filterbox,
    options, error, fields, chips);

  const set = (key, v) => { get()[key] = v; changed(); };

  function drawModes(info) {
    const can = modesOf(info), now = modeOf(get(), info);
    fill(modes, (info?.kind === 'space' ? SPACE_MODES : MODES).map(([m, label]) => h('label', { class: 'mode ' + m, title: can.includes(m) ? null : why(m, info) },
      h('input', { type: 'radio', name: `${id}m`, value: m, checked: m === now, disabled: !can.includes(m), onchange: () => set('mode', m) }),
      h('span', null, label))));
  }

  function drawOptions(info) {
    const now = get(), mode = modeOf(now, info), base = info?.kind === 'base';
    const number = (key, label, attrs) => h('label', null, h('span', null, label),
      h('input', { type: 'number', inputmode: 'decimal', value: now[key] === 0 && key === 'depth' ? '' : now[key], ...attrs, onchange: (e) => set(key, clamp(e.target.value, attrs)) }));
    const select = (key, label, choices) => h('label', null, h('span', null, label),
      h('select', { onchange: (e) => set(key, e.target.value) }, choices.map(([v, text]) => h('option', { value: v, selected: (now[key] || choices[0][0]) === v }, text))));
    const box = (key, label) => h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: now[key], onchange: (e) => set(key, e.target.checked) }), h('span', null, label));
    const keyword = mode !== 'vector', vector = mode !== 'keyword', hybrid = mode === 'hybrid';
    filterbox.hidden = info?.kind === 'space';
    if (filterbox.hidden) {
      fill(options.lastChild,
        number('k', 'Evidence', { min: 1, max: 100, step: 1 }),
        info.accounts.length ? select('as', 'Asked by', info.accounts.map((a) => [a, a])) : null);
      return;
    }
    fill(options.lastChild,
      number('k', 'Hits', { min: 1, max: base ? 100 : 1000, step: 1 }),
      number('min', 'Least score', { min: 0, max: 1, step: 'any' }),
      hybrid || base ? number('depth', 'Depth of each leg', { min: 0, max: 10000, step: 1, placeholder: 'auto' }) : null,
      !base && hybrid ? select('fusion', 'Fusion', [['rrf', 'by rank (RRF)'], ['weighted', 'by score (weighted)']]) : null,
      !base && hybrid ? number('wk', 'Weight of keyword', { min: 0.01, max: 100, step: 'any' }) : null,
      !base && hybrid ? number('wv', 'Weight of vector', { min: 0.01, max: 100, step: 'any' }) : null,
      !base && keyword ? select('words', 'Words', [['any', 'any of them'], ['all', 'all of them'], ['phrase', 'as a phrase'], ...(mode === 'keyword' ? [['syntax', 'as query syntax']] : [])]) : null,
      !base && keyword ? box('prefix', 'Last word may go on') : null,
      !base && vector ? box('exact', 'Compare every vector') : null,
      base ? box('rerank', 'Rerank') : null);
    filter.value = now.f;
  }

  function drawFields(info) {
    const list = (info?.meta || []).slice(0, 24);
    fill(fields, list.length ? h('span', { class: 'muted' }, 'Fields: ') : null, list.map((f) => h('button', {
      type: 'button', class: 'field', title: `${f.name}: ${f.type}`, onclick: () => insert(f),
    }, f.name, h('small', null, f.type))));
    fields.hidden = document.activeElement !== filter && !fields.matches(':focus-within');
  }

  function insert(f) {
    const text = filter.value.trimEnd();
    filter.value = (text && !/\b(and|or|not|\()\s*$/i.test(text) ? text + ' and ' : text ? text + ' ' : '') + word(f.name) + (f.type === 'keyword' ? ' = ""' : ' ');
    get().f = filter.value;
    filter.focus();
    const at = filter.value.length - (f.type === 'keyword' ? 1 : 0);
    filter.setSelectionRange(at, at);
  }
  const inside = () => { fields.hidden = !fields.childElementCount; };
  filter.addEventListener('focus', inside);
  el.addEventListener('focusout', (e) => { if (!el.contains(e.relatedTarget)) fields.hidden = true; });

  function drawChips() {
    fill(chips, get().is.map((c, i) => h('li', null, h('span', { dir: 'auto' }, `${c.field} = ${c.literal}`),
      h('button', { type: 'button', 'aria-label': `Remove ${c.field} = ${c.literal}`, onclick: () => { get().is.splice(i, 1); changed(); } }, '×'))));
    chips.hidden = !get().is.length;
  }

  return {
    el,
    draw(info) {
      drawModes(info);
      drawOptions(info);
      drawFields(info);
      drawChips();
    },
    // fail shows an error of the filter, or takes it away.
    fail(message) {
      error.textContent = message || '';
      filter.toggleAttribute('aria-invalid', !!message);
      if (message) filter.setAttribute('aria-invalid', 'true');
    },
  };
}

function clamp(text, { min, max, step }) {
  const n = step === 1 ? Math.round(Number(text)) : Number(text);
  return Number.isFinite(n) ? Math.min(max, Math.max(min, n)) : min;
}

function why(mode, info) {
  if (!info) return '';
  if (mode === 'keyword') return 'No text field here.';
  return info.vectors.length ? 'No model is on record here, so a query cannot be turned into a vector.' : 'No vectors here.';
}
