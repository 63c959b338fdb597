package action

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"example.com/checkout/storage/people"
)

// ChangeBrand changes the look of a merchant's hosted page. c.Was must have the earlier values. Errors: those of
// people.Store.SetBrand.
func ChangeBrand(ctx context.Context, people *people.Store, merchantID string, c people.BrandChange, by By) error {
	return people.SetBrand(ctx, merchantID, c, by.Entry(bothModes(merchantID), "brand.changed", brandDetail(c)))
}

// brandDetail lists the changed values in words.
func brandDetail(c people.BrandChange) string {
	var detail []string
	note := func(what, was, is, none string) {
		if was != is {
			detail = append(detail, fmt.Sprintf("%s: %s → %s", what, cmp.Or(was, none), cmp.Or(is, none)))
		}
	}
	if c.Color != nil {
		note("color", c.Was.Color, *c.Color, "the page's own")
	}
	if c.Contact != nil {
		for _, name := range people.ContactFields {
			note(name, *c.Was.Field(name), *c.Contact.Field(name), "none")
		}
	}
	if c.Receipts != nil {
		note("receipts", fmt.Sprint(c.Was.Receipts), fmt.Sprint(*c.Receipts), "")
	}
	switch {
	case c.Logo != nil && len(*c.Logo) == 0:
		detail = append(detail, "no logo")
	case c.Logo != nil:
		detail = append(detail, "another logo")
	}
	return strings.Join(detail, "; ")
}
