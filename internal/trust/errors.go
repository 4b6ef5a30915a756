package trust

import "errors"

// Errors of Policy.Check and Policy.StillGood. The wrapping text names the NIC, the cause and the
// remedy.
var (
	ErrOwnID         = errors.New("the NIC id is this NIC's own")
	ErrUnboundID     = errors.New("the NIC id does not belong to the static key")
	ErrBoundToOther  = errors.New("the NIC id is bound to another static key")
	ErrNoCertificate = errors.New("the certificate is missing")
	ErrMalformed     = errors.New("malformed")
	ErrOtherFabric   = errors.New("the certificate authority is unknown: the certificate is of another fabric")
	ErrSignature     = errors.New("the signature is wrong")
	ErrOtherHolder   = errors.New("the certificate is another NIC's")
	ErrNotYetValid   = errors.New("the certificate is not yet valid")
	ErrExpired       = errors.New("the certificate has expired")
	ErrRevoked       = errors.New("the certificate is revoked")
)

// Errors of keys in text form. The wrapping text never shows the key.
var (
	ErrNotAKey   = errors.New("not in the expected form")
	ErrTruncated = errors.New("truncated")
	ErrAltered   = errors.New("altered")
	ErrWeak      = errors.New("weak")
)
