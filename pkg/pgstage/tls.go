package pgstage

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// writeCertificates makes an authority and the certificate of a server for 127.0.0.1 and localhost. It writes
// server.crt and server.key into the cluster, where PostgreSQL looks for them, and returns the path of the
// authority's certificate in the folder.
func writeCertificates(folder, data string) (ca string, err error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "pgstage authority"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    authority.NotBefore, NotAfter: authority.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.ParseIP(Host)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return "", err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, &serverKey.PublicKey, authorityKey)
	if err != nil {
		return "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return "", err
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	// 0600: PostgreSQL refuses a key that others may read.
	if err := servant().write(filepath.Join(data, "server.key"), encode("PRIVATE KEY", keyDER), 0o600); err != nil {
		return "", err
	}
	if err := servant().write(filepath.Join(data, "server.crt"), encode("CERTIFICATE", serverDER), 0o600); err != nil {
		return "", err
	}
	ca = filepath.Join(folder, "ca.pem")
	return ca, servant().write(ca, encode("CERTIFICATE", authorityDER), 0o644)
}
