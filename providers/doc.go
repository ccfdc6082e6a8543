// Package providers holds the nouns that the saga and the payment providers' adapters share: money, the requests that
// a saga makes, and the outcomes that an adapter may answer with.
//
// It imports nothing else of paysaga. An adapter (providers/stripe, …) translates between these nouns and one provider's
// API; the saga never sees a provider's own types, and an adapter never sees a saga.
package providers
