// Package register has the providers of the operator: of some forty that of AWS alone, or the clouds' libraries would be most of the build.
package register

import (
	_ "github.com/external-secrets/external-secrets/pkg/provider/aws"
)
