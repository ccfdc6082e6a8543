package statement

import (
	"errors"
	"strconv"
	"strings"

	"paysaga/providers"
)

// maxSections is how many sections, that is accounts, of a report are held against their footers one by one.
const maxSections = 1000

var errCount = errors.New("is no count")

// payPalCheck holds a report's footers against its rows.
type payPalCheck struct {
	account               string
	section, report       payPalSums
	fileRows              int64
	files, filesEnded     int64
	sections, sectionEnds int64
	later                 bool // the file is not the first one of its report: the report's footers count more than it has
	told                  []Control
}

// payPalSums are what the rows of a section or of the report come to. They have a bound: a currency is one of ISO 4217's.
type payPalSums struct {
	rows       int64
	currencies map[string]*payPalMoney
}

type payPalMoney struct{ credits, debits, feeCredits, feeDebits int64 }

func newPayPalSums() payPalSums { return payPalSums{currencies: make(map[string]*payPalMoney)} }

func newPayPalCheck() payPalCheck {
	return payPalCheck{section: newPayPalSums(), report: newPayPalSums()}
}

func (c *payPalCheck) beginFile(number string) error {
	c.files++
	c.fileRows = 0
	if count, err := strconv.Atoi(number); err == nil && count > 1 {
		c.later = true
	}
	return nil
}

func (c *payPalCheck) beginSection(account string) {
	c.sections++
	c.account, c.section = account, newPayPalSums()
}

// booking counts a row before it is taken together with others.
func (c *payPalCheck) booking(line *Line) {
	c.fileRows++
	for _, sums := range []*payPalSums{&c.section, &c.report} {
		sums.rows++
		money, ok := sums.currencies[line.Currency]
		if !ok {
			money = &payPalMoney{}
			sums.currencies[line.Currency] = money
		}
		money.credits, money.debits = add(money.credits, max(line.Gross, 0)), add(money.debits, max(-line.Gross, 0))
		money.feeCredits, money.feeDebits = add(money.feeCredits, max(-line.Fee, 0)), add(money.feeDebits, max(line.Fee, 0))
	}
}

// The fields of a footer by currency, SF and RF: the currency, four sums, the balances at the beginning and at the end, each behind its
// CR or DR. What follows (total and payable balances) is not held against anything.
const (
	footerCurrency = iota + 1
	footerCredits
	footerDebits
	footerFeeCredits
	footerFeeDebits
	footerBeginSide
	footerBegin
	footerEndSide
	footerEnd
)

// footer reads an SF or RF row.
func (c *payPalCheck) footer(read row) error {
	if len(read.fields) <= footerFeeDebits || read.open && len(read.fields) <= footerEnd {
		return &rowError{number: read.number, reason: errCut.Error()}
	}
	scope, sums := c.scope(rowKind(read.fields))
	currency := strings.ToUpper(read.raw(column{at: footerCurrency}))
	if _, ok := providers.CurrencyExponent(currency); !ok {
		return &fieldError{column: "currency of the balance", reason: errCurrency.Error()}
	}
	money := sums.currencies[currency]
	if money == nil {
		money = &payPalMoney{}
	}
	controls := make([]Control, 0, 5)
	for _, figure := range []struct {
		at      int
		name    string
		counted int64
	}{
		{footerCredits, "gross credits", money.credits},
		{footerDebits, "gross debits", money.debits},
		{footerFeeCredits, "fee credits", money.feeCredits},
		{footerFeeDebits, "fee debits", money.feeDebits},
	} {
		told, err := payPalAmount(read.raw(column{at: figure.at}), currency)
		if err != nil {
			return &fieldError{column: figure.name, reason: err.Error()}
		}
		controls = append(controls, Control{Name: figure.name + scope, Currency: currency, Told: told, Counted: figure.counted})
	}
	if len(read.fields) > footerEnd {
		balance, err := c.balance(read, currency, scope, money)
		if err != nil {
			return err
		}
		controls = append(controls, balance)
	}
	c.note(read, controls...)
	return nil
}

// balance holds the balance at the end against the one at the beginning and everything between.
func (*payPalCheck) balance(read row, currency, scope string, money *payPalMoney) (Control, error) {
	sides := [2]int64{}
	for at, from := range []int{footerBegin, footerEnd} {
		told, err := payPalAmount(read.raw(column{at: from}), currency)
		if err != nil {
			return Control{}, &fieldError{column: "balance", reason: err.Error()}
		}
		if strings.EqualFold(read.raw(column{at: from - 1}), "DR") {
			told = -told
		}
		sides[at] = told
	}
	counted := add(sides[0], add(add(money.credits, -money.debits), add(money.feeCredits, -money.feeDebits)))
	return Control{Name: "ending available balance" + scope, Currency: currency, Told: sides[1], Counted: counted}, nil
}

// count reads an SC, RC or FF row.
func (c *payPalCheck) count(read row) error {
	kind := rowKind(read.fields)
	told, err := strconv.ParseInt(read.raw(column{at: 1}), 10, 64)
	if err != nil || told < 0 {
		return &fieldError{column: "number of rows", reason: errCount.Error()}
	}
	control := Control{Name: "rows", Told: told}
	switch kind {
	case "SC":
		c.sectionEnds++
		control.Counted = c.section.rows
		control.Name += " of account " + c.account
	case "RC":
		control.Counted = c.report.rows
		control.Name += " of the report"
	default:
		c.filesEnded++
		control.Counted = c.fileRows
		control.Name += " of the file"
	}
	c.note(read, control)
	return nil
}

func (c *payPalCheck) scope(kind string) (name string, sums *payPalSums) {
	if kind == "RF" {
		return " of the report", &c.report
	}
	return " of account " + c.account, &c.section
}

// note keeps controls, as far as there is room and they can be judged.
func (c *payPalCheck) note(read row, controls ...Control) {
	kind := rowKind(read.fields)
	if c.later && (kind == "RF" || kind == "RC") || kind[0] == 'S' && c.sections > maxSections {
		return
	}
	for _, control := range controls {
		if len(c.told) < maxSums {
			c.told = append(c.told, control)
		}
	}
}

// controls also tell whether what begins ends: a report that was cut off between two rows has nothing else to show it.
func (c *payPalCheck) controls() []Control {
	return append([]Control{
		{Name: "sections that end", Told: c.sections, Counted: c.sectionEnds},
		{Name: "files that end", Told: c.files, Counted: c.filesEnded},
	}, c.told...)
}
