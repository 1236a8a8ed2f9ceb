package research

import "strings"

// The words that Classify looks for, in lists between spaces. What means
// something else in another of these languages is left out ("en" joins in Dutch
// and is "in" in Spanish; "i" joins in Polish and is "I" in English).
const (
	// conjunctions join two things that are asked for.
	conjunctions = " and or & plus y et ou und sowie oder e ed och eller og и или та ve veya 그리고 및 또는 và και और و "
	// after a conjunction these say nothing.
	adverbs = " also then additionally furthermore dann auch ensuite aussi después también poi anche também также затем "

	// asking words open a question.
	asking = " how what when where which who whom whose why what's how's where's" +
		" cómo qué cuándo cuál cuáles dónde quién cuánto cuánta comment quoi quand où quel quelle quels quelles qui pourquoi combien" +
		" wie was wann wo welche welcher welches welchen wer wem warum wieso weshalb wieviel" +
		" quando dove quale quali chi perché como onde qual quais quem hur vad när vilken vilka vem varför hvordan hvad hvornår" +
		" как что когда где какой какая какое какие кто почему зачем сколько nasıl neden nerede hangi" +
		" 어떻게 무엇을 무엇이 무엇 언제 어디서 어디 왜 누가 어떤 πώς πότε πού γιατί कैसे क्या कब कहाँ क्यों كيف متى أين لماذا هل "
	// orders and auxiliaries open one in English.
	auxiliaries = " can could does do did is are was were should will would may must has have" +
		" explain describe list show tell give compare summarize summarise "
	// subordinates open what asks nothing, up to a comma; "when" and "where" ask
	// before an auxiliary.
	subordinates = " when where if while after before since because although given once unless wenn falls als quand si lorsque cuando se quando если когда "
	// each says that what is joined is asked about one by one.
	each = " respectively both jeweils respectivement respectivamente rispettivamente соответственно "

	// determiners open a thing that needs nothing from before, pronouns stand
	// for something from before.
	determiners = " the a an its their his her our your my any all der die das ein eine le la les un une el los las lo il "
	pronouns    = " it its they them their this that these those he she him "

	// differences "between" this and that; "compare" this "with" that; this
	// "vs" that.
	differences = " difference differences distinction relationship relation comparison trade-off trade-offs tradeoff tradeoffs" +
		" unterschied unterschiede différence différences diferencia diferencias diferença diferenças differenza differenze skillnad разница различие отличие "
	betweens  = " between zwischen entre tra fra mellan mellem между "
	comparing = " compare comparing compared vergleiche comparer compara comparar confronta сравни сравните "
	against   = " and with to against y & con et avec und mit e com и с "
	versus    = " vs versus v.s "
	// prepositions end the second thing; what follows goes for both.
	prepositions = " in for on when with at within inside under during bei für dans pour para em per в для при "
)

// In Chinese and Japanese words are not parted, so these are looked for
// anywhere.
const (
	hanAsking = "怎么 怎麼 怎样 怎樣 如何 什么 什麼 为何 為何 哪 谁 誰 多少 几个 幾個 是否 能否 可否 有没有 有沒有 吗 嗎 何时 何時 何处 多久" +
		" どう どの どこ どれ いつ だれ 何 なぜ いくら ですか ますか でしょうか"
	// hanStrong join whatever stands beside them; hanWeak where something else
	// says that there are two.
	hanStrong = "以及 还有 還有 并且 並且 ならびに 並びに および 及び それと そして"
	hanWeak   = "和 与 與 跟 及 、 と や または"
	// hanNoJoint are words with such a character in them.
	hanNoJoint = "和平 和谐 和諧 共和 饱和 飽和 总和 總和 温和 溫和 缓和 柔和 和解 和文 和訳 昭和 令和 平和 調和 参与 參與 与否 给与 授与 付与 寄与 関与" +
		" 普及 涉及 言及 及时 及時 及格 波及 ひと こと もと もの とき ところ という とする として とても と言 と思 とは 、と"

	hanCompare = "区别 區別 差别 差別 差异 差異 不同 异同 異同 对比 對比 比较 比較 优劣 優劣 違い ちがい 相違"
	hanEach    = "分别 分別 各自 それぞれ 各々"
	// hanFrame stands around the things compared.
	hanFrame    = "请问 請問 请 請 一下 之间的 之間的 之间 之間 的 之 有什么 有什麼 有何 是 は の が を とで との"
	hanPronouns = "它 其 这个 這個 该 該 それ その これ この"
)

// has tells whether one of the lists between spaces has a word.
func has(list, word string) bool { return word != "" && strings.Contains(list, " "+word+" ") }

// first finds the first place in text of any word of a list, the longest of
// those that start there; at is −1 when there is none.
func first(text, list string) (at int, word string) {
	at = -1
	for w := range strings.FieldsSeq(list) {
		if i := strings.Index(text, w); i >= 0 && (at < 0 || i < at || i == at && len(w) > len(word)) {
			at, word = i, w
		}
	}
	return at, word
}
