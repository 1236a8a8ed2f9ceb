package pdf

import "golang.org/x/text/unicode/norm"

func compose(s string) string { return norm.NFC.String(s) }

// marks are the suffixes of the names of accented letters.
var marks = map[string]string{
	"grave": "\u0300", "acute": "\u0301", "circumflex": "\u0302", "tilde": "\u0303", "macron": "\u0304", "breve": "\u0306",
	"dotaccent": "\u0307", "dieresis": "\u0308", "ring": "\u030a", "hungarumlaut": "\u030b", "caron": "\u030c",
	"cedilla": "\u0327", "ogonek": "\u0328", "commaaccent": "\u0326",
}

// glyphNames are the names of the Adobe glyph list that Latin text uses, without
// letters named by themselves and accented letters, which accented reads.
var glyphNames = map[string]string{
	"space": " ", "exclam": "!", "quotedbl": "\"", "numbersign": "#", "dollar": "$", "percent": "%", "ampersand": "&",
	"quotesingle": "'", "parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+", "comma": ",", "hyphen": "-",
	"period": ".", "slash": "/", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6",
	"seven": "7", "eight": "8", "nine": "9", "colon": ":", "semicolon": ";", "less": "<", "equal": "=", "greater": ">",
	"question": "?", "at": "@", "bracketleft": "[", "backslash": "\\", "bracketright": "]", "asciicircum": "^",
	"underscore": "_", "grave": "`", "braceleft": "{", "bar": "|", "braceright": "}", "asciitilde": "~",
	"exclamdown": "¡", "cent": "¢", "sterling": "£", "currency": "¤", "yen": "¥", "brokenbar": "¦", "section": "§",
	"dieresis": "¨", "copyright": "©", "ordfeminine": "ª", "guillemotleft": "«", "logicalnot": "¬", "registered": "®",
	"macron": "¯", "degree": "°", "plusminus": "±", "twosuperior": "²", "threesuperior": "³", "acute": "´", "mu": "µ",
	"paragraph": "¶", "periodcentered": "·", "cedilla": "¸", "onesuperior": "¹", "ordmasculine": "º", "guillemotright": "»",
	"onequarter": "¼", "onehalf": "½", "threequarters": "¾", "questiondown": "¿", "AE": "Æ", "ae": "æ", "Eth": "Ð", "eth": "ð",
	"Thorn": "Þ", "thorn": "þ", "germandbls": "ß", "multiply": "×", "divide": "÷", "Oslash": "Ø", "oslash": "ø", "OE": "Œ",
	"oe": "œ", "dotlessi": "ı", "dotlessj": "ȷ", "Lslash": "Ł", "lslash": "ł", "Dcroat": "Đ", "dcroat": "đ", "Hbar": "Ħ", "hbar": "ħ",
	"florin": "ƒ", "circumflex": "ˆ", "caron": "ˇ", "breve": "˘", "dotaccent": "˙", "ring": "˚", "ogonek": "˛", "tilde": "˜",
	"hungarumlaut": "˝", "endash": "–", "emdash": "—", "quoteleft": "‘", "quoteright": "’", "quotesinglbase": "‚",
	"quotedblleft": "“", "quotedblright": "”", "quotedblbase": "„", "dagger": "†", "daggerdbl": "‡", "bullet": "•",
	"ellipsis": "…", "perthousand": "‰", "guilsinglleft": "‹", "guilsinglright": "›", "fraction": "⁄", "Euro": "€",
	"trademark": "™", "minus": "−", "fi": "fi", "fl": "fl", "ff": "ff", "ffi": "ffi", "ffl": "ffl", "nbspace": " ", "sfthyphen": "-",
	"arrowleft": "←", "arrowup": "↑", "arrowright": "→", "arrowdown": "↓", "arrowboth": "↔", "arrowdblright": "⇒",
	"lessequal": "≤", "greaterequal": "≥", "notequal": "≠", "approxequal": "≈", "infinity": "∞", "summation": "∑",
	"product": "∏", "radical": "√", "integral": "∫", "partialdiff": "∂", "Delta": "Δ", "Omega": "Ω", "element": "∈",
	"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "pi": "π", "rho": "ρ",
	"sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Theta": "Θ", "Lambda": "Λ",
	"Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "eta": "η", "zeta": "ζ", "iota": "ι", "kappa": "κ", "nu": "ν", "xi": "ξ",
}

// standard is where Adobe's standard encoding differs from Windows-1252.
var standard = map[byte]string{
	0x27: "’", 0x60: "‘", 0xa4: "⁄", 0xa6: "ƒ", 0xa8: "¤", 0xa9: "'", 0xaa: "“", 0xac: "‹", 0xad: "›", 0xae: "fi", 0xaf: "fl",
	0xb1: "–", 0xb2: "†", 0xb3: "‡", 0xb4: "·", 0xb7: "•", 0xb8: "‚", 0xb9: "„", 0xba: "”", 0xbc: "…", 0xbd: "‰", 0xc1: "`",
	0xc2: "´", 0xc3: "ˆ", 0xc4: "˜", 0xc5: "¯", 0xc6: "˘", 0xc7: "˙", 0xc8: "¨", 0xca: "˚", 0xcb: "¸", 0xcd: "˝", 0xce: "˛",
	0xcf: "ˇ", 0xd0: "—", 0xe1: "Æ", 0xe3: "ª", 0xe8: "Ł", 0xe9: "Ø", 0xea: "Œ", 0xeb: "º", 0xf1: "æ", 0xf5: "ı", 0xf8: "ł",
	0xf9: "ø", 0xfa: "œ", 0xfb: "ß",
}
