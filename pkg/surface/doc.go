// Package surface is everything that a client can see: the server's name and instructions, the tools with their texts,
// schemas and annotations, and the resources. It is made of values and sealed once at start; after that it does not
// change.
//
// It owns the shape of a tool's work, [Tool.Run], and of a resource's, [Resource.Read], and knows no tool, no resource,
// no guard and no protocol library.
//
// Needs: nothing. An attacker controls nothing here: every text is written by us or by the operator.
package surface
