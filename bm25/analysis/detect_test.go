package analysis

import "testing"

func TestLanguage(t *testing.T) {
	d := NewDetector()
	for _, c := range []struct{ declared, text, analyzer, code string }{
		{"", "The refund policy allows returns within 30 days of the purchase, and it is simple.", "english", "en"},
		{"", "Die Rückgabe ist innerhalb von 30 Tagen nach dem Kauf möglich, wenn der Artikel nicht benutzt ist.", "german", "de"},
		{"", "Les retours sont possibles dans les 30 jours qui suivent l'achat, sauf pour les produits de la liste.", "french", "fr"},
		{"", "Las devoluciones se aceptan en los 30 días que siguen a la compra, pero no para los productos de la lista.", "spanish", "es"},
		{"", "退款政策允许在购买后三十天内退货。", "chinese", "zh"},
		{"", "返金は購入から三十日以内に受け付けます。", "japanese", "ja"},
		{"", "환불은 구매 후 30일 이내에 가능합니다.", "standard", "ko"},
		{"", "Возврат возможен в течение тридцати дней после покупки.", "russian", ""},
		{"", "Οι επιστροφές γίνονται δεκτές εντός τριάντα ημερών.", "greek", "el"},
		{"", "x = f(y); return z[0] != nil", "standard", ""},
		{"", "bolt nut washer screw rivet hinge", "standard", ""},
		{"", "", "standard", ""},
		{"pt-BR", "whatever it says", "portuguese", "pt-BR"},
		{"tlh", "nuqneH", "standard", "tlh"},
	} {
		if a, code := d.Language(c.declared, c.text); a != c.analyzer || code != c.code {
			t.Errorf("%q: %s %q, want %s %q", c.text, a, code, c.analyzer, c.code)
		}
	}
}
