// What is looked at, and its form in the URL. Two settings are kept: a of every
// view, b of the second column of the comparison, whose names start with "b.".

export const VIEWS = ['search', 'compare', 'stats', 'import'];

// defaults of a settings object; what equals them is left out of the URL. An
// empty mode means the best one the target knows.
export const DEFAULTS = {
  mode: '', f: '', k: 10, fusion: 'rrf', wk: 1, wv: 1, depth: 0, min: 0, words: 'any', as: '', prefix: false, exact: false, rerank: false,
};

const fresh = () => ({ ...DEFAULTS, is: [] });

// parse reads a query string; what it does not know is left out.
export function parse(search) {
  const p = new URLSearchParams(search);
  const view = p.get('view');
  return {
    view: VIEWS.includes(view) ? view : 'search',
    target: p.get('in') || '',
    q: p.get('q') || '',
    a: settings(p, ''),
    b: settings(p, 'b.'),
    doc: p.get('doc') || '',
    chunk: p.get('chunk') || '',
    why: p.get('why') || '',
  };
}

function settings(p, prefix) {
  const out = fresh();
  for (const [name, fallback] of Object.entries(DEFAULTS)) {
    const raw = p.get(prefix + name);
    if (raw === null) continue;
    if (typeof fallback === 'boolean') out[name] = raw === '1';
    else if (typeof fallback === 'number') out[name] = Number.isFinite(Number(raw)) ? Number(raw) : fallback;
    else out[name] = raw;
  }
  for (const raw of p.getAll(prefix + 'is')) {
    const m = /^("(?:[^"\\]|\\.)*"|[\w.-]+)=("(?:[^"\\]|\\.)*"|-?[\d.]+(?:e[+-]?\d+)?|true|false)$/i.exec(raw);
    if (m) out.is.push({ field: m[1].startsWith('"') ? unquote(m[1]) : m[1], literal: m[2] });
  }
  return out;
}

// format writes the state as a query string.
export function format(state) {
  const p = new URLSearchParams();
  if (state.view !== 'search') p.set('view', state.view);
  if (state.target) p.set('in', state.target);
  if (state.q) p.set('q', state.q);
  put(p, '', state.a);
  put(p, 'b.', state.b);
  for (const name of ['doc', 'chunk', 'why']) if (state[name]) p.set(name, state[name]);
  const out = p.toString();
  return out ? '?' + out : '?';
}

function put(p, prefix, settings) {
  for (const [name, fallback] of Object.entries(DEFAULTS)) {
    const v = settings[name];
    if (v !== fallback) p.set(prefix + name, v === true ? '1' : v === false ? '0' : v);
  }
  for (const { field, literal } of settings.is) p.append(prefix + 'is', word(field) + '=' + literal);
}

function unquote(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // an address that somebody has cut
  }
}

// literal is a value as the filter language writes it. Chosen values are kept in
// this form, since integers beyond 2^53 are no JavaScript numbers.
export const literal = (v) => (typeof v === 'string' ? JSON.stringify(v) : String(v));

const sameValue = (field, lit) => (c) => c.field === field && c.literal === lit;

// toggle adds a facet's value to the settings, or takes it out.
export function toggle(settings, field, value) {
  const at = settings.is.findIndex(sameValue(field, literal(value)));
  if (at >= 0) settings.is.splice(at, 1);
  else settings.is.push({ field, literal: literal(value) });
}

export const chosen = (settings, field, value) => settings.is.some(sameValue(field, literal(value)));

// filterText joins the filter box and the chosen facets in the filter language:
// values of one field are alternatives, fields are joined by and.
export function filterText(settings) {
  const parts = [];
  if (settings.f.trim()) parts.push(settings.f.trim());
  const byField = new Map();
  for (const c of settings.is) byField.set(c.field, [...(byField.get(c.field) || []), c.literal]);
  for (const [field, literals] of byField) parts.push(literals.length === 1 ? `${word(field)} = ${literals[0]}` : `${word(field)} in [${literals.join(', ')}]`);
  return parts.length > 1 ? parts.map((x) => `(${x})`).join(' and ') : parts[0] || '';
}

const KEYWORDS = new Set(['and', 'or', 'not', 'exists', 'in', 'between', 'range', 'prefix', 'starts', 'with', 'contains', 'any', 'all', 'is', 'null', 'empty', 'true', 'false']);

// word writes a field's name, quoted where it must be.
export function word(name) {
  return /^[A-Za-z_][\w.-]*$/.test(name) && !KEYWORDS.has(name.toLowerCase()) ? name : JSON.stringify(name);
}
