namespace Scoregate
{
    /// <summary>
    /// An open run: the seed to play with, the ticket and key to submit with. Times are RFC 3339, UTC.
    /// </summary>
    public sealed class Run : Document
    {
        internal Run(JsonValue json) : base(json)
        {
            Id = json["run"].AsText();
            Ticket = json["ticket"].AsText();
            Key = BytesOf(json["key"]);
            Seed = WordOf(json["seed"]);
            Board = json["board"].AsText();
            Player = json["player"].AsText();
            Build = json["build"].AsText();
            Simulator = json["simulator"].AsTextOrNull();
            TicksPerSecond = json["ticks_per_second"].AsLong();
            CheckpointTicks = CountOf(json["checkpoint_ticks"]);
            Parameters = json["parameters"].AsTextOrNull();
            Asset = json["asset"].AsTextOrNull();
            AssetUrl = json["asset_url"].AsTextOrNull();
            IssuedAt = json["issued_at"].AsText();
            ExpiresAt = json["expires_at"].AsText();
        }

        /// <summary>Return a run from what <see cref="Document.ToJson"/> gave, after a restart of the game.</summary>
        /// <exception cref="JsonException">It is something else.</exception>
        public static Run FromJson(string json) => new Run(JsonReader.Read(json));

        /// <summary>The run's id.</summary>
        public string Id { get; }

        /// <summary>Names the run's key in signatures.</summary>
        public string Ticket { get; }

        /// <summary>The key that signs its submission. It is secret.</summary>
        public byte[] Key { get; }

        /// <summary>The seed of the game.</summary>
        public ulong Seed { get; }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The game's build.</summary>
        public string Build { get; }

        /// <summary>The digest of the simulator.</summary>
        public string Simulator { get; }

        /// <summary>The ticks of a second.</summary>
        public long TicksPerSecond { get; }

        /// <summary>The ticks between two checkpoints, 0 for none: what a Recorder takes.</summary>
        public uint CheckpointTicks { get; }

        /// <summary>The board's parameters, as the text of a JSON object, or null.</summary>
        public string Parameters { get; }

        /// <summary>The digest of the board's asset, or null.</summary>
        public string Asset { get; }

        /// <summary>The path of the asset, or null.</summary>
        public string AssetUrl { get; }

        /// <summary>When it was opened.</summary>
        public string IssuedAt { get; }

        /// <summary>Until when it can be submitted.</summary>
        public string ExpiresAt { get; }
    }
}
