namespace Scoregate
{
    /// <summary>An event of a board's live feed.</summary>
    public sealed class FeedEvent
    {
        internal FeedEvent(string kind, string id, JsonValue data)
        {
            Kind = kind;
            Id = id;
            Data = data;
        }

        /// <summary>begin or reset (read the board now), standing, rank or overtaken.</summary>
        public string Kind { get; }

        /// <summary>
        /// Resume after it once everything up to this event is handled. Null if the change has more events; empty if
        /// there is nothing to resume from yet.
        /// </summary>
        public string Id { get; }

        /// <summary>What happened, an object.</summary>
        public JsonValue Data { get; }
    }
}
