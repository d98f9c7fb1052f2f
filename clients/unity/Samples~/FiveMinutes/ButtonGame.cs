namespace Scoregate.Samples
{
    /// <summary>
    /// The game of docs/how-to/put-your-game-on-it.md: each tick with the button pressed scores 10, and the run ends
    /// after 600 ticks, or when it is left. Whole numbers only: the gateway plays it again, and must get the same.
    /// </summary>
    public sealed class ButtonGame
    {
        /// <summary>The input word with which the player leaves.</summary>
        public const uint Leave = 2;

        private const ulong MostTicks = 600;
        private readonly ulong seed;
        private ulong tick;

        public ButtonGame(ulong seed)
        {
            this.seed = seed;
        }

        public long Score { get; private set; }

        /// <summary>Play a tick, and return whether the run goes on.</summary>
        public bool Tick(uint input)
        {
            tick++;
            Score += (input & 1) == 1 ? 10 : 0;
            tick = (input & ~1u) == 0 ? tick : MostTicks;
            return tick < MostTicks;
        }

        public ulong StateHash()
        {
            unchecked
            {
                var hash = (seed ^ ((ulong)Score * 0x9E3779B97F4A7C15)) + tick;
                hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9;
                return hash ^ (hash >> 27);
            }
        }
    }
}
