package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// hostile are texts that would do something if they were more than text. Each
// would set window.pwned.
var hostile = []string{
	`<script>window.pwned=1</script>`,
	`<img src=x onerror="window.pwned=1">`,
	`"><svg/onload=window.pwned=1>`,
	`</textarea></title><body onload=window.pwned=1>`,
	`javascript:window.pwned=1//`,
	`<a href="javascript:window.pwned=1">harbor</a>`,
	`<iframe srcdoc="<script>parent.pwned=1</script>">`,
	`{{constructor.constructor('window.pwned=1')()}}`,
	`<style>@import url(//evil.example/x.css)</style>`,
	`<link rel=stylesheet href=//evil.example/x.css>`,
	`<form action=//evil.example><input name=q autofocus onfocus=window.pwned=1>`,
	"\u202eharbor\u2066 <b>bold</b>",
	`__proto__`, `constructor`,
}

// Nothing that a document, a name, an address or a file says becomes markup or
// script, and nothing of it makes the browser ask another place.
func TestHostileDocuments(t *testing.T) {
	s := start(t)
	s.send(t, http.MethodPost, "/v1/collections", map[string]any{"name": "hostile", "schema": map[string]any{"text": []any{map[string]any{"name": "title"}, map[string]any{"name": "text"}}}}, nil)
	var docs []doc
	for i, h := range hostile {
		docs = append(docs, doc{ID: fmt.Sprintf("%02d %s", i, h), Text: map[string]string{"title": h, "text": "harbor " + h + " harbor"},
			Meta: map[string]any{"kind": h, "<img src=x onerror=window.pwned=1>": h, "list": []string{h, "harbor"}}})
	}
	s.put(t, "hostile", docs...)
	s.send(t, http.MethodPost, "/v1/knowledge-bases", map[string]any{"id": "pages", "name": `<img src=x onerror="window.pwned=1">`}, nil)
	for i, h := range hostile {
		name := fmt.Sprintf("%02d %s.md", i, strings.Map(func(r rune) rune {
			if r == '/' || r == '\u202e' || r == '\u2066' {
				return '-'
			}
			return r
		}, h))
		s.putFile(t, "pages", name, []byte("# harbor "+h+"\n\nharbor "+h+"\n"))
	}
	b := open(t, desktop, s.url+"/")
	for _, address := range []string{
		"/?in=c%3Ahostile&q=harbor&k=20",
		"/?in=c%3Ahostile&k=20",
		"/?in=c%3Ahostile&q=harbor&mode=keyword&doc=" + url.QueryEscape(docs[1].ID),
		"/?in=c%3Ahostile&q=" + url.QueryEscape(hostile[1]) + "&f=" + url.QueryEscape(hostile[0]),
		"/?in=c%3Ahostile&q=harbor&why=" + url.QueryEscape(hostile[2]) + "&is=" + url.QueryEscape(`kind="`+`<img src=x onerror=window.pwned=1>"`),
		"/?in=" + url.QueryEscape("c:"+hostile[1]) + "&view=" + url.QueryEscape(hostile[2]) + "&doc=" + url.QueryEscape(hostile[0]),
		"/?in=b%3Apages&q=harbor&k=20",
		"/?view=compare&in=c%3Ahostile&q=harbor&k=20",
		"/?view=stats&in=c%3Ahostile",
		"/?view=stats&in=b%3Apages",
		"/?view=import&in=b%3Apages",
	} {
		b.visit(s.url + address)
		b.js(`document.querySelectorAll('details').forEach((d) => { d.open = true; })`, nil)
		for i := range 3 {
			b.js(fmt.Sprintf(`document.querySelectorAll('.hit .acts button')[%d]?.click()`, i), nil)
		}
		b.js(`document.querySelectorAll('.hit .title, .rank .title')[2]?.click()`, nil)
		b.js(`new Promise((ok) => setTimeout(ok, 150))`, nil)
		b.idle()
		var bad []string
		b.js(`[window.pwned ? 'a script ran' : '', ({}).polluted ? 'a prototype was changed' : '',
			...[...document.querySelectorAll('img, iframe, object, embed, base, meta[http-equiv], body script, body style, body link, main form[action], a[href^="javascript:" i], [onerror], [onload], [onfocus], b > b')].map((e) => e.outerHTML.slice(0, 100)),
			...[...document.querySelectorAll('a[href]')].filter((a) => new URL(a.href).origin !== location.origin).map((a) => a.outerHTML.slice(0, 100))].filter(Boolean)`, &bad)
		if len(bad) > 0 {
			t.Errorf("%s: %s", address, strings.Join(bad, "\n"))
		}
		if strings.HasSuffix(address, "q=harbor&k=20") && !strings.Contains(address, "view") {
			for _, h := range hostile[:3] {
				if got := b.text("main"); !strings.Contains(got, h) {
					t.Errorf("%s does not show %s as it is", address, h)
				}
			}
			b.shot("hostile-" + address[len("/?in="):len("/?in=")+1])
		}
	}
}

// The policy of the page stands when somebody tries to get around it.
func TestPolicyOfThePage(t *testing.T) {
	s := start(t)
	b := open(t, desktop, s.url+"/")
	for what, script := range map[string]string{
		"markup from a string": `document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.pwned = 1">')`,
		"an inline script":     `const s = document.createElement('script'); s.append('window.pwned = 1'); document.body.append(s)`,
		"an inline handler":    `const b = document.createElement('b'); b.setAttribute('onclick', 'window.pwned = 1'); document.body.append(b); b.click()`,
		"a script from a text": `setTimeout('window.pwned = 1')`,
		"another place":        `fetch('data:text/plain,x').then(() => { window.pwned = 1; }, () => 0)`,
		"a frame":              `const f = document.createElement('iframe'); f.onload = () => { if (f.contentDocument?.body?.innerText) window.pwned = 1; }; f.src = '/v1'; document.body.append(f)`,
	} {
		b.js(`(() => { try { `+script+` } catch { return 0; } })()`, nil)
		b.js(`new Promise((ok) => setTimeout(ok, 100))`, nil)
		var pwned bool
		if b.js(`!!window.pwned`, &pwned); pwned {
			t.Errorf("%s works", what)
			b.js(`window.pwned = 0`, nil)
		}
	}
	b.mu.Lock()
	b.provoked = true
	b.mu.Unlock()
}
